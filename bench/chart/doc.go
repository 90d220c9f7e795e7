// Package chart draws the measurements of package bench by message size, as SVG: one picture for the table of bandwidth
// and one for that of latency. A picture has a panel for each message size. Each panel has axes of its own that begin
// at 0, since figures of 64 bytes and of 1 MiB differ by three orders of magnitude. A panel has a group of bars for
// each operation: the reference HCA's, and one for each yardstick.
package chart
