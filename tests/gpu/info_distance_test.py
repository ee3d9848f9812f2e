# SPDX-License-Identifier: Apache-2.0
"""Tests what `rondo info` prints about distances of devices, by hwloc and NVML, or by a file instead. usage:
info_distance_test.py RONDO

The machine is tests/topologies/eight_devices.xml, which hwloc itself loads in place of this one."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RONDO = os.path.abspath(sys.argv.pop(1))
MACHINE = Path(__file__).resolve().parent.parent / "topologies" / "eight_devices.xml"
DEVICES = {"SOFT_CUDA_DEVICES": "8", "SOFT_NVML_DEVICES": "8", "SOFT_CUDA_KERNELS": ""}
RING = {"SOFT_NVML_LINKS": "0-1*4 1-2*4 2-3*4 3-0*4"}
SWITCHES = {"SOFT_NVML_LINKS": " ".join(f"{device}-s{switch}*{count}" for device in range(8)
                                        for switch, count in ((0, 5), (1, 4), (2, 4), (3, 5)))}
NO_NVML = {"RONDO_NVML_LIBRARY": "libno-such-nvml.so"}


def run(*options, **variables):
    return subprocess.run([RONDO, "info", *options], env=os.environ | DEVICES | variables, capture_output=True,
                          text=True, timeout=120, check=False)


def info(*options, **variables):
    done = run(*options, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def devices(**variables):
    return json.loads(info("--json", **variables))["devices"]


def codes(told):
    return [[distance["code"] for distance in row] for row in told["distances"]]


class Distances(unittest.TestCase):
    def test_the_machine_tells_where_devices_are_and_nvml_how_they_are_linked(self):
        told = devices(HWLOC_XMLFILE=str(MACHINE), **RING)
        self.assertEqual((told["nvml"]["asked"], told["nvml"]["error"]), (True, None))
        for number, device in enumerate(told["list"]):
            self.assertEqual(device["pci_bus_id"], f"0000:{number + 1:02x}:00.0")
            self.assertEqual(device["cuda_ordinals"], [number])
            self.assertEqual(device["numa_node"], number // 4)
            self.assertEqual(device["processing_units"], [4 * (number // 4) + pu for pu in range(4)])
            self.assertEqual(len(device["nvlinks"]), 2 if number < 4 else 0)
        self.assertEqual(codes(told)[0], ["same", "NV4", "root", "NV4"] + 4 * ["across"])
        self.assertEqual(codes(told)[5], 4 * ["across"] + ["switch", "same", "root", "node"])
        self.assertEqual(told["distances"][0][1], {"kind": "nvlink", "links": 4, "code": "NV4"})

    def test_network_cards_are_told_with_their_distances(self):
        document = json.loads(info("--json", HWLOC_XMLFILE=str(MACHINE)))
        cards = {card["name"]: card for card in document["nics"]}
        self.assertEqual(sorted(cards), ["ens1", "ens2", "mlx5_0"])
        self.assertEqual((cards["mlx5_0"]["kind"], cards["mlx5_0"]["pci_bus_id"]), ("rdma", "0000:0c:00.0"))
        self.assertEqual([each["code"] for each in cards["mlx5_0"]["distances"]],
                         ["switch", "switch", "root", "node"] + 4 * ["across"])
        text = info(HWLOC_XMLFILE=str(MACHINE)).split("\nNetwork cards on PCI\n")[1]
        self.assertIn("0000:0c:00.0, RDMA; NUMA node 0; processing units 0-3; from the devices: switch switch", text)

    def test_uuids_are_those_of_cuda(self):
        document = json.loads(info("--json", HWLOC_XMLFILE=str(MACHINE)))
        self.assertEqual([device["uuid"] for device in document["devices"]["list"]],
                         [device["uuid"] for device in document["cuda"]["devices"]])

    def test_the_text_has_the_table_and_explains_what_is_in_it(self):
        text = info(HWLOC_XMLFILE=str(MACHINE), **RING).split("\nDevices\n")[1].split("\nTuning\n")[0]
        rows = [line.split() for line in text.splitlines()]
        self.assertIn(["distance"] + [str(number) for number in range(8)], rows)
        self.assertIn(["0", "0000:01:00.0", "same", "NV4", "root", "NV4", "across", "across", "across", "across"], rows)
        self.assertIn("CUDA 0; NUMA node 0; processing units 0-3; NVLinks: 4 to 0000:02:00.0, 4 to 0000:04:00.0", text)
        self.assertIn("CUDA 7; NUMA node 1; processing units 4-7; no NVLinks", text)
        for code in ("NVn", "switch", "root", "node", "across"):
            self.assertRegex(text, rf"(?m)^    {code} +\w")
        for code in ("NVSn", r"\?"):
            self.assertNotRegex(text, rf"(?m)^    {code} +\w")

    def test_switches_make_all_devices_equally_near(self):
        told = devices(HWLOC_XMLFILE=str(MACHINE), **SWITCHES)
        for number, row in enumerate(codes(told)):
            self.assertEqual(row, ["same" if other == number else "NVS18" for other in range(8)])

    def test_a_file_takes_the_place_of_hwloc_and_nvml_and_tells_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            for links in (RING, SWITCHES, {}):
                first, second = os.path.join(folder, "1.xml"), os.path.join(folder, "2.xml")
                info("--topology-xml", first, HWLOC_XMLFILE=str(MACHINE), **links)
                found = devices(HWLOC_XMLFILE=str(MACHINE), **links)
                in_place = devices(RONDO_TOPOLOGY_FILE=first, **NO_NVML)
                self.assertFalse(in_place["nvml"]["asked"])
                self.assertEqual(in_place["list"], found["list"])
                self.assertEqual(in_place["distances"], found["distances"])
                # hwloc keeps these distances, too: it writes what it has read.
                info("--topology-xml", second, HWLOC_XMLFILE=first, **NO_NVML)
                self.assertEqual(devices(RONDO_TOPOLOGY_FILE=second)["list"], found["list"])
                # NVML does not change what a file says.
                other = devices(HWLOC_XMLFILE=first, SOFT_NVML_LINKS="0-7*1")
                self.assertEqual(other["distances"], found["distances"])

    def test_without_nvml_the_distance_over_pcie_is_told_and_that_links_are_not_known(self):
        told = devices(HWLOC_XMLFILE=str(MACHINE), **NO_NVML)
        self.assertIn("libno-such-nvml.so", told["nvml"]["error"])
        self.assertEqual(codes(told)[0], ["same", "switch", "root", "node"] + 4 * ["across"])
        self.assertEqual([device["nvlinks"] for device in told["list"]], 8 * [None])
        text = info(HWLOC_XMLFILE=str(MACHINE), **NO_NVML)
        self.assertIn("NVML                      none\n", text)
        self.assertIn("NVLinks not known", text)
        self.assertIn("the distance is that over PCIe", text)

    def test_devices_that_only_cuda_sees_are_told_to_be_nowhere_known(self):
        told = devices(SOFT_CUDA_DEVICES="2", RONDO_TOPOLOGY_FILE=str(MACHINE.parent.parent / "fuzz" / "corpus" /
                                                                      "topology" / "two_sockets.xml"))
        self.assertEqual([device["cuda_ordinals"] for device in told["list"]], [[0], [1]])
        self.assertEqual([device["numa_node"] for device in told["list"]], [None, None])
        self.assertEqual(codes(told), [["same", "?"], ["?", "same"]])

    def test_devices_that_cuda_does_not_see_are_told_all_the_same(self):
        told = devices(SOFT_CUDA_DEVICES="0", HWLOC_XMLFILE=str(MACHINE), **RING)
        self.assertEqual([device["cuda_ordinals"] for device in told["list"]], 8 * [[]])
        self.assertIn("not seen by CUDA; NUMA node 0", info(SOFT_CUDA_DEVICES="0", HWLOC_XMLFILE=str(MACHINE)))

    def test_a_file_with_links_that_cannot_be_read_is_refused_by_name(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            text = MACHINE.read_text(encoding="utf-8")
            marked = text.replace('<info name="CPUModel"', '<object type="Misc" name="RondoDevice 0000:0a:00.0"><info '
                                  'name="RondoNVLinks" value="all of them"/></object><info name="CPUModel"', 1)
            file.write(marked)
            file.flush()
            done = run(RONDO_TOPOLOGY_FILE=file.name)
            self.assertEqual(done.returncode, 2)
            for part in (file.name, "device 0000:0a:00.0", "'all of them'", "rondo info --topology-xml"):
                self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
