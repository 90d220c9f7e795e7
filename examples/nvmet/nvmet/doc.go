// Package nvmet is an NVMe target over RDMA: the controller side of NVMe over Fabrics 1.1 with its RDMA transport. Its
// hosts are those of other implementations, such as Linux with nvme-rdma. It is an example of an upper protocol that
// was not made for this kit. It uses connections of package rdmacm and nothing below them, so it runs on every adapter.
//
//	t, err := nvmet.Listen(m, addr, nvmet.Config{NQN: "nqn.2024-01.example:disk", Backend: nvmet.NewRAM(1 << 30)})
//	…                                                                         // m is a *rdmacm.Manager
//	err = t.Close()
//
// Each queue of NVMe is a connection. The host sends a command as a message, the command capsule, with the key of its
// memory. The target reads or writes that memory with one-sided transfers, and sends the response capsule, which
// invalidates the key. Read the files in this order:
//
//   - wire.go: the layout of capsules, and the checks of the part that is common to all commands.
//   - target.go: listening, the private data of requests, and the limits.
//   - queue.go: a connection. It receives commands, moves their data and sends responses.
//   - controller.go: commands of Fabrics, and the controllers that they create; the keep alive timer.
//   - admin.go, io.go: the other commands.
//   - backend.go: where the blocks are.
//
// # Memory
//
// Config.Memory bounds the bytes that all hosts together can make a target hold. A queue's share is taken before its
// connection is accepted: its receive and send buffers, one capsule for each command, and the buffers of its data.
// Further connections are rejected (no resources). A queue whose host does not send Connect ends, as does a controller
// without commands for its keep alive time.
//
// # Bad input
//
// A command that is invalid ends in a status. A capsule that is too short, or one more command than the queue has
// entries, ends the connection, with the reason in the log.
//
// # Limits
//
// One subsystem with one namespace, without metadata, reservations and authentication. Any host may connect.
//
// Sources: NVM Express Base 1.4; NVM Express over Fabrics 1.1, with section 7.3, the RDMA transport.
package nvmet
