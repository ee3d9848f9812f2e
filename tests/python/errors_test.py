# SPDX-License-Identifier: Apache-2.0
"""Tests the exceptions of the Python package: their classes, and how they describe failures."""

import array
import builtins
import pickle
import threading
import unittest

import ranks
import rondo
from rondo import _errors
from rondo._library import C


def ints(values):
    return array.array("i", values)


class Classes(unittest.TestCase):
    def test_each_status_has_its_class(self):
        self.assertEqual(set(_errors.CLASSES), set(rondo.Status) - {rondo.Status.OK})
        for status, kind in _errors.CLASSES.items():
            made = _errors.failure(status)
            self.assertIs(type(made), kind)
            self.assertEqual((made.status, made.rank, made.peer, made.operation), (status, None, None, None))
            self.assertEqual(str(made), C.rondo_status_string(status).decode())
            self.assertIs(getattr(rondo, kind.__name__), kind)
        self.assertIs(type(_errors.failure(4711)), rondo.InternalError)  # a status of a later version

    def test_they_are_exceptions_of_python_too(self):
        for kind, known in ((rondo.TimeoutError, builtins.TimeoutError), (rondo.InvalidArgument, ValueError),
                            (rondo.InvalidHandle, ValueError), (rondo.OutOfResourcesError, MemoryError),
                            (rondo.UnsupportedError, NotImplementedError), (rondo.RemoteError, RuntimeError)):
            self.assertTrue(issubclass(kind, known) and issubclass(kind, rondo.Error), kind)

    def test_they_travel_between_processes(self):
        for kind in (rondo.RemoteError, rondo.TimeoutError):
            told = pickle.loads(pickle.dumps(kind("rank 1 ended", kind.default_status, 0, 1, 7)))
            self.assertEqual((type(told), str(told), told.rank, told.peer, told.operation),
                             (kind, "rank 1 ended", 0, 1, 7))


class Failures(unittest.TestCase):
    def caught(self, size, body, **options):
        """Returns the exception of each rank."""
        def guarded(comm):
            try:
                body(comm)
            except rondo.Error as error:
                return error
            return None
        return ranks.as_threads(size, guarded, **options)

    def test_ranks_that_disagree(self):
        for error in self.caught(2, lambda comm: comm.all_reduce(ints([1] * (comm.rank + 1)))):
            self.assertIs(type(error), rondo.MismatchError)
            self.assertEqual(error.operation, 1)
            self.assertIn("all_reduce", str(error))

    def test_a_rank_that_does_not_come(self):
        turn = threading.Event()

        def body(comm):
            if comm.rank == 0:
                try:
                    comm.all_reduce(ints([1]))
                finally:
                    turn.set()
            assert turn.wait(ranks.LIMIT_S)
        error, other = self.caught(2, body, timeout=0.2)
        self.assertIs(type(error), rondo.TimeoutError)
        self.assertEqual((error.status, error.peer, error.operation), (rondo.Status.TIMEOUT, 1, 1))
        self.assertIsNone(other)

    def test_a_later_call_names_the_first_failure(self):
        def body(comm):
            try:
                comm.all_reduce(ints([1]), op="sum" if comm.rank else "max")
            except rondo.MismatchError:
                comm.barrier()
        for error in self.caught(2, body):
            self.assertIs(type(error), rondo.CommFailedError)
            self.assertIs(type(error.__cause__), rondo.MismatchError)
            self.assertEqual(error.operation, 1)
            self.assertIn("failed earlier", str(error))

    def test_a_refusal_does_not_hide_a_failure(self):
        def body(comm):
            try:
                comm.broadcast(ints([1]), root=5)
            except rondo.InvalidArgument as refused:
                assert "root" in str(refused), refused
            comm.all_reduce(ints([1]), op="sum" if comm.rank else "max")
        for error in self.caught(2, body):
            self.assertIs(type(error), rondo.MismatchError)
            self.assertIn("all_reduce", str(error))

    def test_a_failure_that_follows_a_refusal_has_its_own_class(self):
        comm = rondo.init()
        with self.assertRaises(rondo.InvalidArgument):
            comm.broadcast(ints([1]), root=5)
        with self.assertRaises(rondo.NotReadyError):  # the library keeps no message of it
            rondo.Event().timestamp_ns()
        comm.abort()
        self.assertIs(type(comm.async_error()), rondo.AbortedError)
        comm.destroy()

    def test_an_exception_in_the_block_of_a_communicator_ends_the_other_ranks(self):
        begun = threading.Event()

        def body(comm):
            with comm:
                if comm.rank == 1:
                    assert begun.wait(ranks.LIMIT_S)
                    raise rondo.Error("of the program")
                begun.set()
                comm.barrier()
        error, own = self.caught(2, body)
        self.assertIs(type(error), rondo.AbortedError)
        self.assertEqual(str(own), "of the program")

    def test_a_failed_init_says_who_is_missing(self):
        with self.assertRaisesRegex(rondo.TimeoutError, "rank") as caught:
            rondo.Communicator(rondo.unique_id(), rank=0, size=2, init_timeout=0.2)
        self.assertIs(caught.exception.status, rondo.Status.TIMEOUT)

    def test_abort_from_another_thread(self):
        def body(comm):
            if comm.rank == 0:
                threading.Timer(0.05, comm.abort).start()
                comm.barrier()
        self.assertIs(type(self.caught(2, body)[0]), rondo.AbortedError)

    def test_ranks_shrink_a_communicator_that_was_revoked(self):
        def body(comm):
            if comm.rank == 0:
                comm.flush()
                comm.revoke()
            with self.assertRaises(rondo.RevokedError):
                while True:
                    comm.barrier()
            if comm.rank == 1:
                return None
            with comm.shrink(exclude=[1], abort=True) as rest:
                return rest.rank, rest.size, rest.all_reduce(ints([comm.rank]))[0]
        made = ranks.as_threads(3, body)
        self.assertEqual(made, [(0, 2, 2), None, (1, 2, 2)])

    def test_a_suspended_communicator_refuses_calls_until_it_is_resumed(self):
        def body(comm):
            comm.suspend()
            self.assertEqual(comm.device_memory(), (0, 0, True))
            with self.assertRaisesRegex(rondo.InvalidUsage, "is suspended"):
                comm.barrier()
            comm.resume()
            with self.assertRaisesRegex(rondo.InvalidUsage, "not suspended"):
                comm.resume()
            return comm.all_reduce(ints([1]))[0]
        self.assertEqual(ranks.as_threads(2, body), [2, 2])

    def test_a_nonblocking_communicator_is_suspended_and_resumed_without_waiting(self):
        name = rondo.unique_id()
        comms = [rondo.Communicator(name, rank, 2, nonblocking=True) for rank in range(2)]
        for comm in comms:
            comm.wait_ready()
        for change in ("suspend", "resume"):
            getattr(comms[0], change)()
            self.assertFalse(comms[0].ready())
            with self.assertRaises(rondo.NotReadyError):
                comms[0].barrier()
            getattr(comms[1], change)()
            for comm in comms:
                comm.wait_ready()
                self.assertEqual(comm.device_memory().suspended, change == "suspend")
        for comm in comms:
            comm.abort()
            comm.destroy()

    def test_new_ranks_join_a_communicator(self):
        comms, results = rondo.init_all(2, timeout=60), [None] * 3

        def old(rank):
            with comms[rank].grow(3) as grown:
                results[rank] = grown.rank, grown.size, grown.all_reduce(ints([rank]))[0]

        def new(identity):
            with rondo.Communicator(identity, rank=2, size=3, timeout=60) as grown:
                results[2] = grown.rank, grown.size, grown.all_reduce(ints([2]))[0]

        threads = [threading.Thread(target=new, args=(comms[1].grow_id(),)),
                   *(threading.Thread(target=old, args=(rank,)) for rank in range(2))]
        with self.assertRaises(rondo.InvalidUsage):
            comms[1].grow_id()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(ranks.LIMIT_S)
        self.assertEqual(results, [(rank, 3, 3) for rank in range(3)])
        with self.assertRaises(rondo.InvalidArgument):
            comms[0].grow(2)
        for comm in comms:
            comm.destroy()


if __name__ == "__main__":
    unittest.main(verbosity=2)
