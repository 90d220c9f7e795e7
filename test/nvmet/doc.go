// Package nvmet tests the NVMe target of examples/nvmet against Linux: the host is nvme-rdma, over rdma_rxe
// (Soft-RoCE), in a virtual machine (package guest). It contains only tests.
package nvmet
