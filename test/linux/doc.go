// Package linux tests the kit against Linux: against rdma_rxe (Soft-RoCE) and verbs programs in a virtual machine
// (package guest), and against the dissectors of Wireshark. It contains only tests.
package linux
