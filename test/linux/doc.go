// Package linux holds the kit against Linux: its rdma_rxe (Soft-RoCE) and its verbs programs, in a virtual machine (package guest), and
// against Wireshark's dissectors. There is nothing to import.
package linux
