/// TCP sockets that never wait longer than they are told.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "runtime/launch/descriptor.h"
#include "runtime/launch/meeting_point.h"

namespace tpc {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// A socket that listens at the first address of the host that this machine has, and at no other. A port that is taken
/// is tried for a second, since its last user may be about to go. DeviceError: the port is taken, the host has no
/// address, or none of this machine.
Descriptor listen_at(const MeetingPoint& point, Deadline deadline);

/// A socket that listens at 127.0.0.1, at a port of the system's choice, which `port` is set to.
Descriptor listen_on_this_machine(int& port);

/// Takes over a descriptor that listens already; DeviceError when it does not.
Descriptor inherited_listener(int number);

/// The next connection, or a closed descriptor when there is none now. DeviceError: the process may open no more files.
Descriptor accept_from(const Descriptor& listener);

/// One try at every address of the host. A closed descriptor when none answers before `deadline`; `reason` then says
/// why: "Connection refused". DeviceError: there is no such host.
Descriptor connect_to(const MeetingPoint& point, Deadline deadline, std::string& reason);

/// Sends all, or receives exactly `count` bytes. False when the connection breaks or the deadline passes before.
bool send_all(const Descriptor& socket, std::string_view bytes, Deadline deadline);
bool receive_exactly(const Descriptor& socket, size_t count, std::string& bytes, Deadline deadline);

/// Where the socket listens, as `127.0.0.1:29500`.
std::string listening_address(const Descriptor& listener);

}  // namespace tpc
