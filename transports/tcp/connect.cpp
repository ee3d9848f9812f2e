// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/connect.h"

#include <sodium.h>

#include "src/bootstrap/address.h"
#include "src/bootstrap/bytes.h"
#include "transports/net/transport.h"
#include "transports/tcp/mesh.h"

namespace rondo::tcp {
namespace {

/// What the ranks of this communicator alone know, from what all ranks of the job know.
Secret mesh_secret(const Secret &job, const std::string &key_prefix) {
  const std::string input = "rondo tcp mesh " + key_prefix;
  Secret secret;
  crypto_generichash(raw(secret.bytes.data()), secret.bytes.size(), raw(bytes_of(input).data()), input.size(),
                     raw(job.bytes.data()), job.bytes.size());
  return secret;
}

}  // namespace

Result<std::unique_ptr<Transport>> connect(const GroupRequest &request, std::unique_ptr<Transport> local,
                                           Store &store) {
  MeshRequest mesh_request;
  mesh_request.rank = request.rank;
  mesh_request.rank_count = request.rank_count;
  for (const uint32_t index : request.local_index) mesh_request.remote.push_back(index == net::no_local);
  mesh_request.secret = mesh_secret(request.secret, request.key_prefix);
  RONDO_TRY_ASSIGN(mesh_request.address, choose_address(request.network_interface));
  mesh_request.host_name = request.host_name;
  mesh_request.key_prefix = request.key_prefix;
  mesh_request.deadline_ns = request.deadline_ns;
  RONDO_TRY_ASSIGN(Mesh mesh, connect_mesh(mesh_request, store));

  RONDO_TRY_ASSIGN(auto memory, net::NearMemory::make(request.local_index, local->links().channel_count(),
                                                      local->links().geometry()));
  RONDO_TRY_ASSIGN(auto network, make_network(memory.links(), std::move(mesh.data)));
  net::GroupParts parts;
  parts.rank = request.rank;
  parts.local_index = request.local_index;
  for (uint32_t rank = 0; rank < request.rank_count; ++rank) parts.names.push_back(mesh.ranks[rank].describe(rank));
  parts.local = std::move(local);
  for (PeerSocket &each : mesh.control) parts.control.push_back({each.peer, std::move(each.socket)});
  return net::make_group_transport(std::move(parts), std::move(memory), std::move(network));
}

}  // namespace rondo::tcp
