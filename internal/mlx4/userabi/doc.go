// Package userabi is what the driver of the ConnectX-3 and its user library have in common: the private data of verbs,
// and the parts of the shared memory that are not queues of the adapter.
//
// # Shared memory
//
// A process has one file of shared memory. It begins with a Header: the doorbells of the process, which the driver
// passes on to the adapter, and whether the adapter has failed. The queues follow. Each has whole pages of its own, and
// behind them a page of control words, a Control: the doorbell record of the adapter, and words that the driver writes
// for the library.
//
// # Trust
//
// The driver reads nothing from the memory on which its own state depends. A wrong doorbell costs a write to the
// process's own page of doorbells. The adapter validates what it reads from queues and doorbell records against the
// PD of the queue.
package userabi
