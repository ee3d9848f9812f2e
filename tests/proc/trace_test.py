# SPDX-License-Identifier: Apache-2.0
"""Tests rondo trace. Perfetto and Chrome can read the timeline. It has a lane for each rank and communicator,
operations in order, and the wait for the last rank inside of its operation. Batches have a lane of their own, and
messages have a lane for each peer and direction. It shows an overlap that the test has caused. Recordings of several
hosts lie on one clock, and files that hold anything else are refused.

usage: trace_test.py RONDO TRACE_RANKS"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from run_support import RONDO, RunTest, wait_until

PROGRAM = os.path.abspath(sys.argv.pop(1))


def trace(*arguments):
    return subprocess.run([RONDO, "trace", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          check=False)


class Timeline:
    """Reads a document, and checks the properties of every document."""

    def __init__(self, case, text):
        document = json.loads(text)
        self.events = document["traceEvents"]
        self.lanes = {}    # (pid, tid): name, of a rank
        self.batches = {}  # (pid, tid): name, of its batches
        self.queues = {}   # (pid, tid): name, of its messages with a peer in one direction
        self.groups = {}   # pid: name
        for event in self.events:
            if event["ph"] == "M" and event["name"] == "thread_name":
                name = event["args"]["name"]
                lanes = (self.queues if " to rank " in name or " from rank " in name else
                         self.batches if " runs batches," in name else self.lanes)
                lanes[event["pid"], event["tid"]] = name
            if event["ph"] == "M" and event["name"] == "process_name":
                self.groups[event["pid"]] = event["args"]["name"]
        every = (*self.lanes, *self.batches, *self.queues)
        tids = [tid for _, tid in every]
        case.assertEqual(len(tids), len(set(tids)), "a viewer tells lanes by their number alone")
        case.assertFalse(set(tids) & set(self.groups))
        case.assertLessEqual({pid for pid, _ in every}, set(self.groups))
        slices = [event for event in self.events if event["ph"] == "X"]
        for event in slices:
            case.assertIn((event["pid"], event["tid"]), every)
            case.assertGreaterEqual(event["ts"], 0)
            case.assertGreaterEqual(event["dur"], 0)
        for lane in self.lanes:
            operations = self.of(lane, "collective")
            case.assertEqual([event["args"]["operation"] for event in operations],
                             sorted(event["args"]["operation"] for event in operations))
            for before, after in zip(operations, operations[1:]):
                case.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 1, "a rank does one after another")
            whole = {event["args"]["operation"]: event for event in operations}
            for wait in self.of(lane, "wait"):
                case.assertTrue(inside(wait, whole[wait["args"]["operation"]]), wait)
        for lane in self.batches:
            for before, after in zip(batches := self.of(lane, "batch"), batches[1:]):
                case.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 1, "one batch runs after another")
        for queue in self.queues:
            for before, after in zip(messages := self.of(queue, "message"), messages[1:]):
                case.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 1, "a queue keeps its order")
                case.assertLess(before["args"]["message"], after["args"]["message"])

    def of(self, lane, category):
        return [event for event in self.events if event["ph"] == "X" and event["cat"] == category and
                (event["pid"], event["tid"]) == lane]

    def messages(self, rank, communicator):
        """Returns the messages of a rank by the name of their lane, without the rank and the communicator."""
        begin, end = f"rank {rank} ", f", communicator {communicator[:8]}"
        return {name[len(begin):-len(end)]: self.of(queue, "message") for queue, name in self.queues.items()
                if name.startswith(begin) and name.endswith(end)}

    def batches_of(self, rank, communicator):
        return [event for lane, name in self.batches.items()
                if name == f"rank {rank} runs batches, communicator {communicator[:8]}"
                for event in self.of(lane, "batch")]

    def lane(self, rank, communicator):
        found = [lane for lane, name in self.lanes.items()
                 if name == f"rank {rank}, communicator {communicator[:8]}"]
        assert len(found) == 1, self.lanes
        return found[0]


def inside(inner, outer):
    """Compares times to a nanosecond, the resolution of the document."""
    return (outer["ts"] - 0.0005 <= inner["ts"] and
            inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.0015)


def recording(communicator, host, made_ns, ranks, clock, offset=None, uncertainty=None, messages=()):
    """Returns a recording. `ranks` is {rank: [(entered, ended), ...]}, counted on the host from 0."""
    lines = [{"record": "communicator", "format": 2, "communicator": communicator, "host": host, "made_ns": made_ns,
              "age_ns": 10**9, "rank_count": len(ranks),
              "clock": {"id": clock, "offset_ns": offset, "uncertainty_ns": uncertainty}}]
    lines += [{"record": "rank", "rank": index, "group_rank": rank, "process": 100 + index}
              for index, rank in enumerate(ranks)]
    for index, operations in enumerate(ranks.values()):
        lines += [{"record": "operation", "rank": index, "operation": number,
                   "state": "completed" if ended else "running", "collective": "all_reduce", "type": "float32",
                   "op": "sum", "root": 0, "count": 8, "algorithm": "ring", "protocol": "simple",
                   "kernel": "interpreter", "channels": 1, "chunk_bytes": 4096, "entered_ns": entered,
                   "ended_ns": ended}
                  for number, (entered, ended) in enumerate(operations, 1)]
    lines += messages
    return "".join(json.dumps(line) + "\n" for line in lines)


def message(number, batch, direction, peer, size, entered, ended):
    return {"record": "message", "rank": 0, "direction": direction, "peer": peer, "message": number, "batch": batch,
            "state": "completed" if ended else "running", "type": "int8", "bytes": size, "entered_ns": entered,
            "ended_ns": ended}


class Files(RunTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def refused(self, text, *paths):
        done = trace(*paths)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        self.assertRegex(done.stderr, text)

    def test_times_waits_and_what_still_runs(self):
        ranks = {0: [(1000, 4000), (6000, None)], 1: [(2500, 4000)]}
        path = self.write("one", recording("ab" * 16, "h", 5000, ranks, "c"))
        done = trace(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        timeline = Timeline(self, done.stdout)
        first, running = timeline.of(timeline.lane(0, "ab" * 16), "collective")
        self.assertEqual((first["name"], first["ts"], first["dur"]), ("all_reduce", 0, 3))
        self.assertEqual({name: first["args"][name] for name in ("operation", "state", "type", "count", "algorithm")},
                         {"operation": 1, "state": "completed", "type": "float32", "count": 8, "algorithm": "ring"})
        self.assertEqual((running["ts"], running["dur"], running["args"]["state"]), (5, 10**6 - 6, "running"))
        wait, = timeline.of(timeline.lane(0, "ab" * 16), "wait")
        self.assertEqual((wait["name"], wait["ts"], wait["dur"]), ("rank 1 is awaited", 0, 1.5))
        late, = timeline.of(timeline.lane(1, "ab" * 16), "collective")
        self.assertEqual((late["ts"], late["dur"]), (1.5, 1.5))
        self.assertEqual(timeline.of(timeline.lane(1, "ab" * 16), "wait"), [])

    def test_messages_have_a_lane_for_each_peer_and_direction_and_batches_have_a_lane(self):
        messages = [message(1, 1, "send", 2, 4, 1000, 2000), message(1, 1, "recv", 2, 8, 1000, 5000),
                    message(2, 1, "send", 2, 16, 2000, 3000), message(3, 2, "send", 2, 1, 6000, 7000),
                    # A device's batch is entered while the batch before it runs.
                    message(4, 3, "send", 2, 1, 6500, 8000), message(1, 3, "send", 3, 32, 6500, None)]
        # The operation overlaps with batches, as on a device.
        lines = recording("ab" * 16, "h", 5000, {1: [(500, 1500)]}, "c", messages=messages)
        done = trace(self.write("messages", lines), "-o", self.folder / "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 operation and 6 messages in 1 lane;", done.stdout)
        timeline = Timeline(self, (self.folder / "out").read_text())
        shown = {name: [(it["name"], it["ts"], it["dur"], it["args"]["bytes"]) for it in events]
                 for name, events in timeline.messages(1, "ab" * 16).items()}
        self.assertEqual(shown, {"sends to rank 2": [("send 1", 0.5, 1, 4), ("send 2", 1.5, 1, 16),
                                                     ("send 3", 5.5, 1, 1), ("send 4", 6.5, 1, 1)],
                                 "receives from rank 2": [("recv 1", 0.5, 4, 8)],
                                 "sends to rank 3": [("send 1", 6, 10**6 - 6.5, 32)]})
        waiting, = timeline.messages(1, "ab" * 16)["sends to rank 3"]
        self.assertEqual(waiting["args"], {"peer": 3, "message": 1, "batch": 3, "bytes": 32, "type": "int8",
                                           "state": "running"})
        self.assertEqual(len(timeline.batches), 1)
        batches = timeline.batches_of(1, "ab" * 16)
        self.assertEqual([(it["name"], it["ts"], it["dur"], it["args"]) for it in batches],
                         [("messages", 0.5, 4, {"batch": 1, "messages": 3, "bytes": 28}),
                          ("messages", 5.5, 1, {"batch": 2, "messages": 1, "bytes": 1}),
                          ("messages", 6.5, 10**6 - 7, {"batch": 3, "messages": 2, "bytes": 33})])

    def test_a_recording_of_format_1_has_messages_and_no_batches(self):
        lines = recording("ab" * 16, "h", 5000, {1: []}, "c", messages=[message(1, 1, "send", 2, 4, 1000, 2000)])
        old = lines.replace('"format": 2', '"format": 1').replace('"batch": 1, ', "")
        done = trace(self.write("old", old))
        self.assertEqual(done.returncode, 0, done.stderr)
        timeline = Timeline(self, done.stdout)
        sent, = timeline.messages(1, "ab" * 16)["sends to rank 2"]
        self.assertEqual((sent["ts"], sent["dur"]), (0, 1))
        self.assertEqual(timeline.batches, {})
        self.refused("no 'batch' that is a number", self.write("new", lines.replace('"batch": 1, ', "")))

    def test_hosts_lie_on_one_clock(self):
        # Host b's clock is 7 ms ahead of a's. Host c has a communicator with b, but none with a. Its rank 0 is on c.
        files = [self.write("a", recording("1" * 32, "a", 50_000_000, {0: [(0, 3000)]}, "ca", 0, 0)),
                 self.write("b", recording("1" * 32, "b", 57_000_000, {1: [(1000, 3000)]}, "cb", -7_000_000, 40)),
                 self.write("bc", recording("2" * 32, "b", 57_000_000, {1: [(5000, 6000)]}, "cb", 900_000_000, 2)),
                 self.write("c", recording("2" * 32, "c", 957_000_000, {0: [(5500, 6000)]}, "cc", 0, 0))]
        done = trace(*files, "-o", self.folder / "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 operations in 4 lanes, clocks of 3 hosts within 0.0 us", done.stdout)
        timeline = Timeline(self, (self.folder / "out").read_text())
        begins = {name: timeline.of(lane, "collective")[0]["ts"] for lane, name in timeline.lanes.items()}
        self.assertEqual(begins, {"rank 0, communicator 11111111": 0, "rank 1, communicator 11111111": 1,
                                  "rank 1, communicator 22222222": 5, "rank 0, communicator 22222222": 5.5})
        self.assertEqual(len(timeline.groups), 3)  # host b's process counts once
        wait, = timeline.of(timeline.lane(0, "1" * 32), "wait")
        self.assertEqual((wait["name"], wait["dur"]), ("rank 1 is awaited", 1))
        self.refused("clock of host c with the clock of host a", files[0], files[3])
        self.refused("is given twice", files[0], files[0])

    def test_what_is_no_recording_is_refused(self):
        good = recording("ab" * 16, "h", 5000, {0: [(1000, 4000)]}, "c")
        self.refused("cannot open .*No such file", self.folder / "nothing")
        self.refused("no operation or message is recorded", self.write("empty", ""))
        self.refused("is no flight recording", self.write("text", "Lorem ipsum\n"))
        self.refused("it is a folder, no regular file", self.folder)
        self.refused("a line has more than|a line is too long", self.write("long", '"' + "x" * (2 << 20)))
        self.refused("operation comes before its rank", self.write("late", good.splitlines()[-1]))
        self.refused("of another version", self.write("format", good.replace('"format": 2', '"format": 3')))
        early = json.dumps(message(1, 1, "send", 2, 4, 1, 2))
        self.refused("message comes before its rank", self.write("early", early))
        for wrong in ("-1", "1e30", '"x"', "null", "18446744073709551615"):
            spoilt = good.replace('"entered_ns": 1000', f'"entered_ns": {wrong}')
            self.refused("no 'entered_ns' that is a", self.write("time", spoilt))
        done = trace("2147483647")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no process 2147483647", done.stderr)
        self.assertEqual(trace().returncode, 2)


class Running(RunTest):
    def test_an_overlap_that_was_brought_about_shows(self):
        read, write = os.pipe()
        self.addCleanup(os.close, write)
        with tempfile.TemporaryDirectory() as folder:
            said = Path(folder) / "said"
            with open(said, "wb") as output:
                job = self.start("-n", "2", "--", PROGRAM, RONDO, stdin=read, stdout=output)
            os.close(read)
            wait_until(lambda: said.read_text().count("is ready") == 2, "both ranks are ready")
            done = trace(job.pid)
            self.assertEqual(done.returncode, 0, done.stderr)
            dump = Path(folder) / "dump"
            subprocess.run([RONDO, "status", "--job", str(job.pid), "--dump", dump], check=True, timeout=60)
            of_file = trace(dump)
            self.assertEqual(of_file.returncode, 0, of_file.stderr)
        for text in (done.stdout, of_file.stdout):
            self.check(Timeline(self, text))

    def check(self, timeline):
        self.assertEqual(len(timeline.lanes), 4)
        self.assertEqual(len(timeline.groups), 2)
        by_count = {}
        for lane, name in timeline.lanes.items():
            by_count.setdefault((name.split(",")[0], len(timeline.of(lane, "collective"))), lane)
        outer, = timeline.of(by_count["rank 0", 1], "collective")
        inner = [event for event in timeline.of(by_count["rank 0", 7], "collective") if event["name"] == "all_reduce"]
        self.assertEqual(len(inner), 5)
        self.assertEqual(outer["pid"], inner[0]["pid"])
        for event in inner:
            self.assertTrue(inside(event, outer), (event, outer))
        wait, = timeline.of(by_count["rank 0", 1], "wait")
        self.assertEqual(wait["name"], "rank 1 is awaited")
        late, = timeline.of(by_count["rank 1", 1], "collective")
        self.assertAlmostEqual(wait["ts"] + wait["dur"], late["ts"], delta=0.002)
        communicator = timeline.lanes[by_count["rank 0", 7]].split()[-1]
        own = timeline.messages(0, communicator)
        sent = own["sends to rank 1"]
        received, = own["receives from rank 1"]
        self.assertEqual([(it["args"]["message"], it["args"]["bytes"], it["args"]["batch"]) for it in sent],
                         [(1, 400, 1), (2, 7, 2)])
        self.assertEqual((received["args"]["bytes"], received["args"]["type"]), (400, "float32"))
        first, second = timeline.batches_of(0, communicator)
        self.assertEqual((first["args"]["messages"], second["args"]["messages"]), (2, 1))
        for event, batch in ((sent[0], first), (received, first), (sent[1], second), (second, outer)):
            self.assertTrue(inside(event, batch), (event, batch))
        others = timeline.of(by_count["rank 1", 7], "collective")
        self.assertGreaterEqual(late["ts"], max(event["ts"] + event["dur"] for event in others))


if __name__ == "__main__":
    unittest.main(verbosity=2)
