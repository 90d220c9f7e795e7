// Package model is a ConnectX-3 in software. The unmodified Linux drivers mlx4_core, mlx4_ib and mlx4_en accept it as
// the card. It is a bus.Device: bus/vfiouser serves it to QEMU, and bus/local to a driver in the same process.
//
//	link := direct.NewLink()
//	port, err := direct.New(link, direct.Config{})
//	…
//	m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: port}}})
//	…
//	f := local.New(m, "model 0")
//
// # Parts
//
//   - Registers: the command register, ownership, reset, semaphore, doorbells.
//   - Commands: a table of opcodes, the firmware state that each needs, and its handler.
//   - ICM: pages of the host that the driver lends to the adapter. MTTs and MPTs are there, in the layout of package
//     prm. Contexts of queues are objects of the model.
//   - Events: EQs, interrupts, and what raises events.
//   - Verbs: the transport is package rvt. The model's rings translate between its work requests and the queues in the
//     guest's memory. QP numbers and keys are those that the guest chooses.
//
// # Containment
//
// A driver is not trusted. The model reaches memory through the Map of its bus.Host only, and copies what it interprets
// before it checks it. Invalid commands complete with a status, invalid work requests with an error completion.
//
// # Concurrency
//
// All methods may be called concurrently. Commands are executed one at a time, within the register write that starts
// them. Doorbells run concurrently with commands.
package model
