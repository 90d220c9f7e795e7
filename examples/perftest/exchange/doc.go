// Package exchange implements the protocol by which two programs of perftest (ib_send_bw and its siblings) exchange the
// addresses of their queue pairs, synchronize, and compare results. It implements both roles, and uses no verbs.
//
// Both sides send the same sequence of messages of fixed length. In each step the client sends first and the server
// replies, so messages need no length, and a step is also a barrier:
//
//	version       16 bytes   text with a NUL, such as "6.06"
//	cycle buffer   4 bytes   bytes of memory for the small messages of a queue pair; the larger value is used
//	cache line     4 bytes   the distance between these messages; the larger value is used
//	path MTU       2 bytes   the code of the verbs as a digit and a NUL; the smaller value is used
//	destination  108 bytes   a queue pair and its memory: Dest. Repeated as a barrier
//	report       5×8 bytes   size, iterations, peak, average, message rate: Report
//
// The number and order of destinations and reports depend on the test. Over TCP a destination is text; over RDMA CM
// (perftest -z and -R) it is a C structure of 56 bytes, and every message is one SEND. Integers and floating-point
// numbers are big-endian.
//
// A Talk runs the steps over a Link. Dial and Listen make a Link over TCP. One goroutine uses a Talk; any may use
// Link.Done.
//
// The format over TCP is that of perftest 5.96 to 6.29, and over RDMA CM that of 5.96 to 6.28: 6.29 has longer
// destinations there. Options that change it (XRC, DC, RawEth, dual port, data validation) are left out.
package exchange
