// Package chart draws what package bench has measured by message size, as SVG: of the table of bandwidth and of that of
// latency a picture each, for those who would rather look than read. A picture has a panel for each size, with axes of
// its own that begin at 0, since figures of 64 bytes and of 1 MiB lie three powers of ten apart; in it a group of bars
// for each operation: ours, and each yardstick that it was measured beside.
package chart
