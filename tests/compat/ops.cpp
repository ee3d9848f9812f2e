// SPDX-License-Identifier: Apache-2.0
// This part of the test program makes operations with a factor, for every type. The factor is passed by value or lies
// in device memory. Operations are destroyed before their group ends. Graphs replay calls with other factors.
#include <cstring>

#include "tests/compat/client.h"

using namespace compat_test;

namespace {

constexpr Kind reducing[] = {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter};

/// Writes the factor of a rank to the end of the rank's memory, which no case uses. Returns the factor's address.
void *write_factor(const Ranks &ranks, int rank, ncclDataType_t type, double factor) {
  const OnDevice current(0);
  unsigned char bits[8] = {};
  put(type, factor, bits);
  unsigned char *const at = ranks.part(rank).at(2 * half_bytes - 8);
  CU(to_device(reinterpret_cast<Address>(at), bits, sizeof bits, ranks.part(rank).stream()));
  ranks.part(rank).wait();
  return at;
}

ncclRedOp_t make_op(Ranks &ranks, int rank, ncclDataType_t type, ncclScalarResidence_t residence, double factor) {
  unsigned char bits[8] = {};
  put(type, factor, bits);
  void *const scalar = residence == ncclScalarDevice ? write_factor(ranks, rank, type, factor) : bits;
  ncclRedOp_t op = ncclSum;
  NCCL(ncclRedOpCreatePreMulSum(&op, scalar, type, residence, ranks.comm(rank)));
  CHECK(op >= ncclNumOps);
  return op;
}

/// Ends the program unless a rank's memory has the sums of the elements times the factors of the ranks.
void check_products(const Ranks &ranks, const Case &it, const double (&factors)[2]) {
  for (int rank = 0; rank < 2; ++rank) {
    if (it.kind == Kind::reduce && rank != it.root) continue;
    const auto found = ranks.part(rank).read();
    const size_t first = it.kind == Kind::reduce_scatter ? it.count * static_cast<size_t>(rank) : 0;
    for (size_t i = 0; i < it.count; ++i) {
      unsigned char wanted[8] = {};
      double sum = 0;
      for (int of = 0; of < 2; ++of) sum += factors[of] * element(it.type, of, first + i);
      put(it.type, sum, wanted);
      const unsigned char *const got = &found[places_of(it, rank).recv + i * it.element_bytes()];
      if (std::memcmp(got, wanted, it.element_bytes()) != 0) fail_test(described(it).c_str(), __FILE__, __LINE__, rank);
    }
  }
}

/// Checks every type. An operation is destroyed before its group ends, and later ones reuse its slot in CreatedOps.
void check_types(Ranks &ranks) {
  const double factors[2] = {2, 3};
  for (const Kind kind : reducing)
    for (int type = 0; type < ncclNumTypes; ++type)
      for (const auto residence : {ncclScalarHostImmediate, ncclScalarDevice}) {
        Case it{kind, static_cast<ncclDataType_t>(type), ncclSum, 1021};
        it.rank_count = 2;
        it.root = 1;
        it.in_place = type % 2 == 1;
        ranks.write(it);
        NCCL(ncclGroupStart());
        for (int rank = 0; rank < 2; ++rank) {
          Case own = it;
          own.op = make_op(ranks, rank, it.type, residence, factors[rank]);
          NCCL(call(own, rank, ranks.part(rank), ranks.comm(rank)));
          NCCL(ncclRedOpDestroy(own.op, ranks.comm(rank)));
        }
        NCCL(ncclGroupEnd());
        check_products(ranks, it, factors);
      }
}

void check_refused_ops(Ranks &ranks) {
  const ncclComm_t comm = ranks.comm(0);
  float factor = 2;
  ncclRedOp_t op = ncclSum;
  const auto create = [&](ncclRedOp_t *to, void *scalar, int type, int residence) {
    return ncclRedOpCreatePreMulSum(to, scalar, static_cast<ncclDataType_t>(type),
                                    static_cast<ncclScalarResidence_t>(residence), comm);
  };
  CHECK_REFUSED(create(nullptr, &factor, ncclFloat32, ncclScalarHostImmediate), ncclInvalidArgument, "op is NULL");
  CHECK_REFUSED(create(&op, nullptr, ncclFloat32, ncclScalarHostImmediate), ncclInvalidArgument, "scalar is NULL");
  CHECK_REFUSED(create(&op, &factor, 12, ncclScalarHostImmediate), ncclInvalidArgument, "data type 12");
  CHECK_REFUSED(create(&op, &factor, ncclFloat32, 2), ncclInvalidArgument, "residence 2");
  CHECK_REFUSED(create(&op, &factor, ncclFloat32, ncclScalarDevice), ncclInvalidArgument, "scalar is host memory");
  CHECK_REFUSED(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, nullptr),
                ncclInvalidArgument, "the communicator is NULL");
  CHECK_REFUSED(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument, "not a created one");
  NCCL(create(&op, &factor, ncclFloat32, ncclScalarHostImmediate));
  void *const at = ranks.part(0).at(0), *const to = ranks.part(0).at(half_bytes);
  const auto reduce = [&](ncclDataType_t type, ncclComm_t of) {
    return ncclAllReduce(at, to, 1, type, op, of, ranks.part(0).stream());
  };
  CHECK_REFUSED(reduce(ncclInt32, comm), ncclInvalidArgument, "made for float32");
  CHECK_REFUSED(reduce(ncclFloat32, ranks.comm(1)), ncclInvalidArgument, "another communicator");
  CHECK_REFUSED(ncclRedOpDestroy(op, ranks.comm(1)), ncclInvalidArgument, "another communicator");
  NCCL(ncclGroupStart());
  NCCL(ncclRedOpDestroy(op, comm));
  CHECK_REFUSED(ncclRedOpDestroy(op, comm), ncclInvalidArgument, "destroyed in this group");
  CHECK_REFUSED(reduce(ncclFloat32, comm), ncclInvalidArgument, "destroyed in this group");
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidArgument, "destroyed in this group");
  CHECK_REFUSED(reduce(ncclFloat32, comm), ncclInvalidArgument, "was destroyed");
  CHECK_REFUSED(ncclRedOpDestroy(op, comm), ncclInvalidArgument, "was destroyed");
  ranks.check_usable();
}

/// Replays a graph, each time with other factors in device memory. The operations were destroyed before the replays.
void check_replays(Ranks &ranks) {
  Case it = ranks.sum(1000);
  constexpr int thread_local_capture = 1;
  GraphExec execs[2] = {};
  ncclRedOp_t ops[2] = {};
  for (int rank = 0; rank < 2; ++rank) ops[rank] = make_op(ranks, rank, it.type, ncclScalarDevice, 1);
  {
    const OnDevice current(0);
    for (int rank = 0; rank < 2; ++rank) CU(begin_capture(ranks.part(rank).stream(), thread_local_capture));
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < 2; ++rank) {
      it.op = ops[rank];
      NCCL(call(it, rank, ranks.part(rank), ranks.comm(rank)));
    }
    NCCL(ncclGroupEnd());
    for (int rank = 0; rank < 2; ++rank) {
      NCCL(ncclRedOpDestroy(ops[rank], ranks.comm(rank)));
      Graph graph = nullptr;
      CU(end_capture(ranks.part(rank).stream(), &graph));
      CU(instantiate(&execs[rank], graph, 0));
      CU(graph_destroy(graph));
      CU(upload(execs[rank], ranks.part(rank).stream()));
      CU(synchronize(ranks.part(rank).stream()));
    }
  }
  it.op = ncclSum;
  for (int replay = 0; replay < 3; ++replay) {
    const double factors[2] = {replay + 1.0, replay - 0.5};
    ranks.write(it);
    for (int rank = 0; rank < 2; ++rank) static_cast<void>(write_factor(ranks, rank, it.type, factors[rank]));
    const OnDevice current(0);
    for (int rank = 0; rank < 2; ++rank) CU(launch(execs[rank], ranks.part(rank).stream()));
    check_products(ranks, it, factors);
  }
  for (int rank = 0; rank < 2; ++rank) {
    NCCL(ncclCommDestroy(ranks.comm(rank)));
    ranks.comm(rank) = nullptr;
  }
  const OnDevice current(0);
  for (const GraphExec exec : execs) CU(exec_destroy(exec));
}

}  // namespace

void compat_test::check_ops() {
  Ranks ranks(2);
  check_types(ranks);
  check_refused_ops(ranks);
  check_replays(ranks);
}
