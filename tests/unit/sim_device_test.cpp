// SPDX-License-Identifier: Apache-2.0
// These tests check the simulator's cost of counted kernels on a device.
#include <array>
#include <utility>

#include "src/sim/device.h"
#include "tests/catch.h"

using namespace rondo;
using namespace rondo::sim;

TEST_CASE("sim: time on a device is what kernels were counted to do, times what that costs") {
  DeviceCosts costs;
  costs.kernel_us = 2;
  costs.begin_end_us = 5;
  costs.access_ns = 100;
  costs.release_ns = 300;
  costs.ordered_add_ns = 400;
  costs.host_access_ns = 700;
  costs.link_GBps = 50;
  costs.GBps = {{2, 20}, {10, 100}};
  CHECK(bandwidth_of(costs, 1) == 10);
  CHECK(bandwidth_of(costs, 2) == 20);
  CHECK(bandwidth_of(costs, 6) == 60);
  CHECK(bandwidth_of(costs, 10) == 100);
  CHECK(bandwidth_of(costs, 64) == 100);

  DeviceWork first, second;
  first.blocks = second.blocks = 2;
  first.bytes = second.bytes = {60'000, 0, 0};
  first.chain = 5;
  second.chain = 7;
  first.releases = 4;
  second.host_loads = 2;
  const DeviceTime shared = time_on_device(std::array{first, second}, costs);
  CHECK(shared.kernel == 2 * 2 + 5);
  CHECK(shared.chain == Approx(0.7));
  CHECK(shared.orders == Approx(0.7 + 0.4));  // the second's: a host load per block, and an add at the end
  CHECK(shared.moving == Approx(120 / 40.));  // four blocks
  CHECK(shared.all() == Approx(9 + 0.7 + 1.1 + 3));
  DeviceWork adding = second;
  adding.adds = 4;
  const DeviceTime added = time_on_device(std::array{first, adding, second}, costs);
  CHECK(added.chain == Approx(0.7));  // that of `second`; `adding` has two adds a block, each with two after it
  CHECK(added.orders == Approx(0.7 + 3 * 0.4));
  CHECK(time_on_device(std::array{adding, adding, adding}, costs).chain == Approx(0.3));
  adding.blocks = 1;
  adding.adds = 0;
  CHECK(time_on_device(std::array{adding}, costs).orders == Approx(1.4));  // a single block needs no count of ends

  second.bytes = {10'000, 20'000, 0};  // on its own device
  CHECK(time_on_device(std::array{first, second}, costs).kernel == 2 + 5);
  CHECK(time_on_device(std::array{first, second}, costs).moving == Approx(60 / 20.));
  second.bytes = {10'000, 200'000, 0};
  costs.GBps = {{2, 200}};
  CHECK(time_on_device(std::array{first, second}, costs).moving == Approx(200 / 50.));  // its link

  CHECK(check_costs(costs).ok());
  for (double *const cost : {&costs.kernel_us, &costs.begin_end_us, &costs.access_ns, &costs.release_ns,
                             &costs.ordered_add_ns, &costs.host_access_ns, &costs.link_GBps, &costs.GBps[2]}) {
    const double before = std::exchange(*cost, 0);
    CHECK(check_costs(costs).ok() == (cost != &costs.link_GBps && cost != &costs.GBps[2]));
    *cost = -1;
    CHECK_FALSE(check_costs(costs).ok());
    *cost = before;
  }
  costs.GBps.clear();
  CHECK_FALSE(check_costs(costs).ok());
}
