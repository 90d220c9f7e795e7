package main

import "ciddk/internal/svg"

// A box is a rectangle of the picture, in pixels. class selects its colours.
type box struct {
	x, y, w, h int
	class      string
	title      string
	lines      []string
}

// The rows of the picture, from the upper protocols down to the transport of packets. Package names are those of the
// layer table.
var boxes = []box{
	{20, 20, 620, 52, "user", "Upper protocols, applications", []string{"everything that drives an HCA uses only ci"}},
	{20, 108, 620, 62, "kit", "accesslayer",
		[]string{"registry, object tree, asynchronous destroy, PnP; MAD services, " +
			"CM, connecting by IP"}},
	{680, 20, 260, 150, "user", "ddk-validate", []string{"certifies any ci.HCA,", "black box,",
		"requirement by requirement"}},
	{20, 206, 920, 44, "ci", "ci: the Channel Interface", nil},
	{20, 286, 215, 80, "driver", "hca/reference", []string{"software HCA:", "RC, UC, UD, SRQ, windows"}},
	{255, 286, 215, 80, "driver", "hca/mlx4", []string{"ConnectX-3 in user space"}},
	{490, 286, 215, 80, "vendor", "your driver", []string{"any hardware"}},
	{725, 286, 215, 80, "driver", "ual, ddkrun",
		[]string{"any driver from other processes:", "Go, unmodified verbs programs"}},
	{20, 402, 215, 62, "kit", "rvt", []string{"the software verbs transport"}},
	{255, 402, 215, 62, "kit", "bus", []string{"VFIO, vfio-user, a model, USB"}},
	{490, 402, 215, 62, "plain", "your hardware", []string{"FPGA, ASIC, simulator"}},
	{725, 402, 215, 62, "kit", "kproxy", []string{"the daemon, above ci again"}},
	{20, 500, 215, 62, "plain", "RoCEv2 in UDP sockets", []string{"no kernel module, no root"}},
	{255, 500, 215, 62, "plain", "direct links", []string{"within one process"}},
	{490, 500, 215, 62, "kit", "fabric", []string{"a subnet in software"}},
}

// An arrow points straight down from y1 to y2.
type arrow struct {
	x, y1, y2 int
	label     string
}

var arrows = []arrow{
	{330, 72, 108, ""}, {330, 170, 206, ""}, {810, 170, 206, ""},
	{127, 250, 286, ""}, {362, 250, 286, ""}, {597, 250, 286, ""}, {832, 250, 286, ""},
	{127, 366, 402, ""}, {362, 366, 402, ""}, {597, 366, 402, ""}, {832, 366, 402, "socket, rings"},
	{127, 464, 500, ""},
}

// style colors boxes by their class; dark is for readers who prefer dark pages.
const (
	style = `.t{font-size:15px;font-weight:600}.l{font-size:12.5px;fill:#57606a}.a{font-size:12px;fill:#57606a}
rect{stroke-width:1.5}path{fill:none;stroke:#57606a;stroke-width:1.5}.head{fill:#57606a;stroke:none}
.user rect{fill:#eef4ff;stroke:#3b6fd4}.kit rect{fill:#f3f0ff;stroke:#7a5bd0}
.ci rect{fill:#1f4fa8;stroke:#1f4fa8}.ci text{fill:#fff}
.driver rect{fill:#eaf7ee;stroke:#2c8a4b}.vendor rect{fill:#fff6e0;stroke:#b7791f}
.plain rect{fill:#f6f8fa;stroke:#8c959f}
`
	dark = `.l,.a{fill:#9da7b3}path{stroke:#9da7b3}.head{fill:#9da7b3}
.user rect{fill:#14233f;stroke:#6d9bf1}.kit rect{fill:#231b3d;stroke:#a78bfa}
.ci rect{fill:#2f6fe0;stroke:#2f6fe0}
.driver rect{fill:#10291a;stroke:#4cc273}.vendor rect{fill:#33270b;stroke:#e0a93b}
.plain rect{fill:#161b22;stroke:#6e7681}
`
)

// picture returns the architecture as SVG.
func picture() string {
	p := svg.New(svg.Head{Width: 960, Height: 620, Label: "Architecture of the HCA Driver Development Kit",
		Note: "Written by tools/docgen: go generate ./tools/docgen", Style: style, Dark: dark})
	tip := func(x, y int) { p.Put("path", "", "class", "head", "d", svg.Path("M", x, y, "l-5 -8h10z")) }
	for _, a := range arrows {
		p.Put("path", "", "d", svg.Path("M", a.x, a.y1, "V", a.y2-6))
		tip(a.x, a.y2)
		if a.label != "" {
			p.Put("text", a.label, "class", "a", "x", a.x+10, "y", (a.y1+a.y2)/2+4)
		}
	}
	// The software transport runs on any of three kinds of port.
	p.Put("path", "", "d", "M127 482H597V494M362 482V494")
	tip(362, 500)
	tip(597, 500)
	p.Put("text", "Port", "class", "a", "x", 137, "y", 477)
	for _, x := range boxes {
		cx := x.x + x.w/2
		p.Open("g", "class", x.class)
		p.Put("rect", "", "x", x.x, "y", x.y, "width", x.w, "height", x.h, "rx", 8)
		y := x.y + x.h/2 - 9*len(x.lines) + 5
		p.Put("text", x.title, "class", "t", "x", cx, "y", y, "text-anchor", "middle")
		for i, l := range x.lines {
			p.Put("text", l, "class", "l", "x", cx, "y", y+18*(i+1), "text-anchor", "middle")
		}
		p.Close()
	}
	p.Put("text", "Wrappers for faults and traces (ci/ciwrap) and mocks (ci/cimock) are ci too, and stand in front of "+
		"any driver.", "class", "a", "x", 480, "y", 600, "text-anchor", "middle")
	return string(p.Bytes())
}
