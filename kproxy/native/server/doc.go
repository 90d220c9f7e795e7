// Package server is the front end of the daemon for the protocol of package native: it receives messages from client
// processes, checks them against package schema, has package kproxy execute them, and replies.
//
//	l, err := native.Listen("/run/ddkd/socket")
//	s := server.New(core, clk)
//	go s.Serve(l)
//	…
//	l.Close()
//	s.Close()
//
// A connection is served by one goroutine, which executes the requests of the data path in the order of arrival, and by
// one goroutine for each other request in execution, up to the client's quota. A client that does not read its replies,
// or sends more than it may, is not read from any more and delays nobody else. A message that is not of the protocol
// ends the connection; a request that does not match its declaration is rejected with InvalidParameter.
//
// A session ends when its socket is closed by all processes that have it, or when the process that connected ends, even
// if a child process has a copy of the socket.
package server
