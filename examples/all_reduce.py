# SPDX-License-Identifier: Apache-2.0
"""All-reduce from Python by ctypes. This program contains no number of Rondo: it reads them from constants.json.

    $ rondo run -n 2 -- python3 all_reduce.py
    rank 0 of 2: the sum is 3.0
    rank 1 of 2: the sum is 3.0
"""
import ctypes, json, subprocess, sys
library, constants = sys.argv[1:3] or ["librondo.so.0", subprocess.check_output(
    ["pkg-config", "--variable=constants", "rondo"], text=True).strip()]
rondo = ctypes.CDLL(library)
with open(constants, encoding="utf-8") as file:
    numbers = {name: value for group in json.load(file)["enums"].values() for name, value in group.items()}
rondo.rondo_last_error_message.restype = ctypes.c_char_p
def check(status, comm=None):
    if status != numbers["RONDO_OK"]:
        sys.exit(rondo.rondo_last_error_message(comm).decode())
comm, rank, size = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
check(rondo.rondo_comm_init_env(ctypes.byref(comm), None))
check(rondo.rondo_comm_rank(comm, ctypes.byref(rank)))
check(rondo.rondo_comm_size(comm, ctypes.byref(size)))
mine, total = (ctypes.c_float * 1)(rank.value + 1), (ctypes.c_float * 1)()
check(rondo.rondo_all_reduce(mine, total, ctypes.c_size_t(1), numbers["RONDO_FLOAT32"], numbers["RONDO_SUM"], comm,
                             None), comm)
check(rondo.rondo_comm_finalize(comm), comm)
rondo.rondo_comm_destroy(comm)
sys.stdout.write(f"rank {rank.value} of {size.value}: the sum is {total[0]}\n")  # one write, as ranks share the output
