// Command sessions measures a daemon with many clients: its memory, and the time of control verbs while 1,000 sessions
// of 50 processes hold 100,000 objects, beside an echo over a Unix socket of the same kind in the same run.
//
//	go run ./bench/cmd/sessions
//	go run ./bench/cmd/sessions -processes 4 -sessions 10 -objects 400
//
// The daemon, the echo server and the clients are processes of their own, which this program starts. A verb is one
// request and one reply through package ual. The echo sends a message of the size of a request and receives it. Verbs
// and echoes alternate in blocks, so that both meet the same load. There are two echoes: through package net, as the
// daemon and its clients use sockets, and through blocking system calls.
package main
