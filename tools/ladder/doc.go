// Package ladder draws message sequence charts (ladder diagrams) of two ends on a network in memory. A chart shows
// every packet with its virtual time and content, lost packets included, and at either side the consumer's calls, its
// events and the state changes.
//
// The charts of docs/connections.md are runs of the connection manager on two reference HCAs. The runs are this
// package's tests, since they need a bubble of virtual time (testing/synctest):
//
//	go generate ./tools/ladder     writes docs/connect-*.svg
//	go test ./tools/ladder         fails when a committed one is not what the code does now
//
// # How
//
//	        decode.go     describes a RoCEv2 packet: CM messages by package mad, others by their BTH
//	        recorder.go   turns the network's packets and a run's notes into a Chart
//	        layout.go     places everything on the time axis
//		svg.go        the picture
//
// The time axis has no scale. Entries of one time share a line, and time runs downwards. Life lines are dotted over
// long pauses.
package ladder

//go:generate go test -run ^TestCharts$ . -update
