// Package umad implements the device files through which unmodified programs of Linux send and receive management
// datagrams: /dev/infiniband/umad0, one for each port, and /dev/infiniband/issm0, which a subnet manager keeps open.
// Programs reach them through libibumad: infiniband-diags, OpenSM, ibping.
//
//	u, err := umad.New(umad.Config{Core: core, MAD: manager, Devices: verbs})
//	…
//	server := devices.New(devices.FrontEnds{verbs, u}, core.MaxClients(), clk)
//
// # Agents
//
// An open file has up to 32 agents. Each is one or more agents of the MAD services: one that sends, and others for the
// requests that it receives. The services match responses, repeat requests, and do RMPP, as the kernel does. Like
// Linux, an adapter executes the Get and Set requests of subnet management itself, except for those of SMInfo. Other
// than in Linux, it does not execute requests of the methods that an agent has in one of the two classes of subnet
// management if they arrive in the other class.
//
// Agents that use RMPP themselves (IB_USER_MAD_USER_RMPP) are not supported: the flag fails with EINVAL.
//
// # Access
//
// As in Linux, the files are for root, here also for the daemon's user. Others get EACCES.
//
// # Errors
//
// Calls fail with the errno of Linux's user_mad. A file whose adapter was removed is readable, and read and write fail
// with EIO.
package umad
