// Package prm has the layouts of the ConnectX-3: registers, commands, mailboxes, contexts, work queue entries and
// completions. The driver and the model use the same tables.
//
// A Field names bits of a big-endian structure. Get and Put convert between the bytes and a number:
//
//	cqn := prm.EQECQN.Get(eqe)
//	prm.CQCState.Put(context, prm.CQFired)
//
// Each Field belongs to a Layout, which has the size and the source of the structure. Layouts lists them all.
//
// # Sources
//
// Mellanox never published the programmer's reference manual of this adapter. Layouts follow the drivers that are known
// to work with it. The prefix of a source names the program: "linux" is Linux 6.1, with files of
// drivers/net/ethernet/mellanox/mlx4 (and mlx4/qp.h in include/linux), "linux ib" has those of
// drivers/infiniband/hw/mlx4, and "libmlx4" those of rdma-core's providers/mlx4.
package prm
