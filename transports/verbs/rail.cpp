// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/rail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "src/base/clock.h"

namespace rondo::verbs {
namespace {

constexpr uint64_t port_patience_ns = 500'000'000;  // time for a port that went down to come back
constexpr uint64_t port_loss_ns = 2'000'000'000;    // links that fail within this time of a port's fall fail due to it

}  // namespace

Result<void> Rail::make_completion_queue(uint32_t entries) {
  const Api &api = device_->api();
  if (entries > device_->completions_max())
    return Error{RONDO_ERROR_UNSUPPORTED, device_->describe() + " takes " +
                                              std::to_string(device_->completions_max()) +
                                              " completions, and the links need " + std::to_string(entries) +
                                              "; lower RONDO_SLOT_COUNT, or RONDO_CHANNELS where it is above 2"};
  channel_.reset(api.create_comp_channel(device_->context()));
  if (!channel_.valid()) return system_error("ibv_create_comp_channel of " + device_->port().device, errno);
  const int flags = ::fcntl(channel_.get()->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel_.get()->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return system_error("setting up completions of " + device_->port().device, errno);
  completions_.reset(api.create_cq(device_->context(), static_cast<int>(entries), nullptr, channel_.get(), 0));
  if (!completions_.valid()) return system_error("ibv_create_cq of " + device_->port().device, errno);
  return {};
}

RailInfo Rail::offer() const {
  return {device_->gid().kind, device_->port().mtu_bytes, device_->lid(), device_->gid().bytes, device_->describe()};
}

bool Rail::fetch() const {
  if (has_fetched()) return true;
  const int count = ibv_poll_cq(completions_.get(), static_cast<int>(fetched_.size()), fetched_.data());
  fetched_first_ = 0;
  fetched_end_ = count > 0 ? static_cast<size_t>(count) : 0;
  return count > 0;
}

void Rail::watch(std::vector<pollfd> &descriptors, int ready) const {
  look_is_due_ = true;
  ibv_cq *queue = nullptr;
  void *context = nullptr;
  while (device_->api().get_cq_event(channel_.get(), &queue, &context) == 0)  // at most one for each request below
    device_->api().ack_cq_events(queue, 1);
  // The queue is polled again after the request for an event. A completion that arrived before the request causes no
  // event.
  const bool busy = ibv_req_notify_cq(completions_.get(), 0) != 0 || fetch();
  descriptors.push_back({busy ? ready : channel_.get()->fd, POLLIN, 0});
  descriptors.push_back({device_->event_descriptor(), POLLIN, 0});
}

void Rail::look() {
  look_is_due_ = false;
  for (ibv_async_event event; device_->next_event(event);) take_event(event);  // bounded by the number of events
  if (port_down_ns_ == 0 || now_ns() - port_down_ns_ < port_patience_ns) return;
  lose_all("it did not come back within 0.5 s");
}

void Rail::take_event(const ibv_async_event &event) {
  const std::string what = device_->api().event_type_str(event.event_type);
  const auto is_own_port = [&] { return static_cast<uint32_t>(event.element.port_num) == device_->port().number; };
  switch (event.event_type) {
    case IBV_EVENT_PORT_ERR:
      if (is_own_port()) port_down_ns_ = port_fell_ns_ = now_ns();
      return;
    case IBV_EVENT_PORT_ACTIVE:
      if (is_own_port()) port_down_ns_ = 0;
      return;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
      return lose_all("the network device " + device_->port().device + " of this host has failed (" + what + ")");
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
      for (Path *const path : paths_)
        if (path->queue_pair() == event.element.qp) path->lose("the queue pair has failed (" + what + ")");
      return;
    default:
      return;  // events of other ports, addresses and subnets: if they matter, requests fail
  }
}

void Rail::lose_all(const std::string &what) {
  for (Path *const path : paths_) path->lose(what);
}

bool Rail::fell_around(uint64_t ns) const {
  if (port_fell_ns_ == 0) return !device_->port_is_active();
  return ns + port_loss_ns > port_fell_ns_ && port_fell_ns_ + port_loss_ns > ns;
}

}  // namespace rondo::verbs
