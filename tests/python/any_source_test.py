# SPDX-License-Identifier: Apache-2.0
"""Tests how rondo.torch finds messages for receives from any rank. It needs no PyTorch."""

import collections
import threading
import unittest

import ranks
import rondo
from rondo._any_source import AnySource

RANK, RANKS = 1, [10, 11, 12, 13]  # this rank in its group, and the global rank of each
LIMIT_S = 60  # only detects hangs


class Mail:
    """The messages for rank 1, and the results of its receives. This class takes the place of channels."""

    def __init__(self):
        self.lock = threading.Lock()
        self.messages = collections.defaultdict(list)  # by source and tag
        self.lost = {}  # by source
        self.receives = AnySource(RANK, RANKS)

    def send(self, source, *texts, tag=0):
        with self.lock:
            self.messages[source, tag] += texts

    def receive(self, source=None, tag=0, seconds=LIMIT_S):
        """Posts a receive, and returns it. Its `result` is a pair of source and text, or an exception."""
        posted = Posted()

        def take(of, asks):
            with self.lock:
                if of in self.lost:
                    raise self.lost[of]
                if self.messages[of, tag]:
                    posted.end((of, self.messages[of, tag].pop(0)))
                    return True
            assert source is None, "a receive that names its source was taken before its message came"
            return False
        self.receives.post(tag, source, take, posted.end, seconds)
        return posted


class Posted:
    def __init__(self):
        self._ended, self._result = threading.Event(), None

    def end(self, result):
        assert not self._ended.is_set(), f"{self._result}, then {result}"
        self._result = result
        self._ended.set()

    def ended(self):
        return self._ended.is_set()

    def result(self):
        assert self._ended.wait(LIMIT_S), "a receive hangs"
        return self._result


class Matching(unittest.TestCase):
    def setUp(self):
        self.mail = Mail()
        self.addCleanup(self.mail.receives.close)

    def test_a_receive_gets_a_message_that_was_sent_before_or_after_it(self):
        self.mail.send(2, "early")
        self.assertEqual(self.mail.receive().result(), (2, "early"))
        posted = self.mail.receive()
        self.assertFalse(posted.ended())
        self.mail.send(3, "late")
        self.assertEqual(posted.result(), (3, "late"))

    def test_receives_of_a_tag_are_matched_in_their_order(self):
        anyone, named, last = self.mail.receive(), self.mail.receive(0), self.mail.receive()
        self.mail.send(0, "first", "second", "third")
        self.assertEqual([each.result() for each in (anyone, named, last)],
                         [(0, "first"), (0, "second"), (0, "third")])

    def test_a_receive_that_names_its_source_does_not_wait_behind_other_tags(self):
        anyone = self.mail.receive(tag=7)
        self.mail.lost = {0: OSError("0"), 2: OSError("2")}
        self.mail.send(3, "named", tag=8)
        self.assertIn(self.mail.receive(3, tag=8).result(), [(3, "named")])
        self.assertFalse(anyone.ended())

    def test_every_source_gets_its_turn(self):
        for source in (0, 2, 3):
            self.mail.send(source, "a", "b")
        sources = [self.mail.receive().result()[0] for _ in range(6)]
        self.assertEqual([sorted(sources[:3]), sorted(sources[3:])], [[0, 2, 3], [0, 2, 3]])

    def test_a_deadline_names_the_ranks_the_tag_and_the_time(self):
        self.mail.lost = {2: OSError("it has ended")}
        late, behind = self.mail.receive(tag=5, seconds=0.05), self.mail.receive(tag=5)
        error = late.result()
        self.assertIsInstance(error, rondo.TimeoutError)
        for part in ("a message with tag 5 from any rank to rank 11", "none of the ranks 10, 12, 13 has sent one",
                     "within 0.05 s", "rank 12 cannot send: it has ended", "timeout= of init_process_group()"):
            self.assertIn(part, str(error))
        self.mail.send(3, "for the next one", tag=5)
        self.assertEqual(behind.result(), (3, "for the next one"))

    def test_if_no_rank_can_send_the_receive_ends_at_once(self):
        self.mail.lost = {0: OSError("gone"), 2: OSError("gone"), 3: OSError("killed")}
        error = self.mail.receive().result()
        self.assertIsInstance(error, rondo.RemoteError)
        self.assertIn("no rank is left that could send it; rank 10 cannot send: gone", str(error))
        self.assertEqual(error.peer, 10)

    def test_closing_ends_what_waits_and_what_is_posted_later(self):
        waiting = [self.mail.receive(), self.mail.receive(3), self.mail.receive(tag=1)]
        self.mail.receives.close()
        for posted in [*waiting, self.mail.receive()]:
            self.assertIsInstance(posted.result(), rondo.AbortedError)


class Probe(unittest.TestCase):
    def test_a_probe_counts_messages_and_names_a_rank_that_has_left(self):
        left = threading.Event()

        def body(comm):
            if comm.rank == 0:
                comm.send(b"word", peer=1)
                comm.barrier()
                comm.destroy()
                left.set()
                return None
            comm.barrier()
            counts = [comm.probe(0)]
            comm.recv(bytearray(4), peer=0)
            self.assertTrue(left.wait(LIMIT_S))
            with self.assertRaisesRegex(rondo.RemoteError, "rank 0 .* has left the communicator"):
                comm.probe(0)
            with self.assertRaisesRegex(rondo.InvalidArgument, "rank"):
                comm.probe(2)
            return counts
        self.assertEqual(ranks.as_threads(2, body), [None, [1]])


if __name__ == "__main__":
    unittest.main()
