// Package ladder draws message sequence charts, ladder diagrams, of what two ends on a network in memory say to each
// other: every packet with its virtual time and what it says, lost ones as lost, and at either side what the consumer
// calls and how states change.
//
// The charts of docs/connections.md are runs of the connection manager on two reference HCAs. The runs are this
// package's tests, since they need a bubble of virtual time (testing/synctest):
//
//	go generate ./internal/ladder     writes docs/connect-*.svg
//	go test ./internal/ladder         fails when a committed one is not what the code does now
//
// # How
//
//	decode.go     a RoCEv2 packet in words: CM messages by package mad, the rest by its BTH
//	recorder.go   what the network's Watch and a run's own notes become: a Chart
//	layout.go     where on the time axis everything goes
//	svg.go        the picture
//
// The time axis has no scale: what happens at one time stands on one line, time goes on downwards, and where much of it
// passes the life lines are dotted.
package ladder

//go:generate go test -run ^TestCharts$ . -update
