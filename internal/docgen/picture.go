package main

import (
	"fmt"
	"html"
	"strings"
)

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

// picture returns the architecture as SVG. It has its own background, light or dark by the reader's system setting,
// because a page may be dark when the system is not.
func picture() string {
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 620" role="img" aria-label="Architecture of the HCA Driver Development Kit">
<!-- Written by internal/docgen: go generate ./internal/docgen -->
<style>
text{font-family:system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1b1f24}
.t{font-size:15px;font-weight:600}.l{font-size:12.5px;fill:#57606a}.a{font-size:12px;fill:#57606a}
rect{stroke-width:1.5}path{fill:none;stroke:#57606a;stroke-width:1.5}.head{fill:#57606a;stroke:none}
.user rect{fill:#eef4ff;stroke:#3b6fd4}.kit rect{fill:#f3f0ff;stroke:#7a5bd0}.ci rect{fill:#1f4fa8;stroke:#1f4fa8}.ci text{fill:#fff}
.driver rect{fill:#eaf7ee;stroke:#2c8a4b}.vendor rect{fill:#fff6e0;stroke:#b7791f}.plain rect{fill:#f6f8fa;stroke:#8c959f}
.paper{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.l,.a{fill:#9da7b3}path{stroke:#9da7b3}.head{fill:#9da7b3}
.user rect{fill:#14233f;stroke:#6d9bf1}.kit rect{fill:#231b3d;stroke:#a78bfa}.ci rect{fill:#2f6fe0;stroke:#2f6fe0}
.driver rect{fill:#10291a;stroke:#4cc273}.vendor rect{fill:#33270b;stroke:#e0a93b}.plain rect{fill:#161b22;stroke:#6e7681}
.paper{fill:#0d1117}}
</style>
<rect class="paper" width="960" height="620"/>
`)
	for _, a := range arrows {
		fmt.Fprintf(&b, `<path d="M%d %dV%d"/><path class="head" d="M%d %dl-5 -8h10z"/>`+"\n", a.x, a.y1,
			a.y2-6, a.x, a.y2)
		if a.label != "" {
			fmt.Fprintf(&b, `<text class="a" x="%d" y="%d">%s</text>`+"\n", a.x+10, (a.y1+a.y2)/2+4,
				html.EscapeString(a.label))
		}
	}
	// The software transport runs on any of three kinds of port.
	b.WriteString(`<path d="M127 482H597V494"/><path class="head" d="M597 500l-5 -8h10z"/>` +
		`<path d="M362 482V494"/><path class="head" d="M362 500l-5 -8h10z"/>` +
		`<text class="a" x="137" y="477">Port</text>` + "\n")
	for _, x := range boxes {
		cx := x.x + x.w/2
		fmt.Fprintf(&b, `<g class="%s"><rect x="%d" y="%d" width="%d" height="%d" rx="8"/>`, x.class, x.x, x.y,
			x.w, x.h)
		y := x.y + x.h/2 - 9*len(x.lines) + 5
		fmt.Fprintf(&b, `<text class="t" x="%d" y="%d" text-anchor="middle">%s</text>`, cx, y,
			html.EscapeString(x.title))
		for i, l := range x.lines {
			fmt.Fprintf(&b, `<text class="l" x="%d" y="%d" text-anchor="middle">%s</text>`, cx, y+18*(i+1),
				html.EscapeString(l))
		}
		b.WriteString("</g>\n")
	}
	b.WriteString(`<text class="a" x="480" y="600" text-anchor="middle">` +
		`Wrappers for faults and traces (ci/ciwrap) and mocks (ci/cimock) are ci too, and stand in front of any ` +
		`driver.</text>` + "\n</svg>\n")
	return b.String()
}
