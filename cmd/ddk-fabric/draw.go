package main

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"ciddk/fabric"
)

type drawCmd struct {
	From string `help:"Show the route from this node."`
	To   string `help:"Show the route to this node."`
}

// Run implements the command.
func (c *drawCmd) Run(p *program) error {
	if (c.From == "") != (c.To == "") {
		return fmt.Errorf("a route needs both --from and --to")
	}
	r, err := p.call(request{Do: "status"})
	if err != nil {
		return err
	}
	var route []hop
	if c.From != "" {
		t, err := p.call(request{Do: "trace", Node: c.From, To: c.To})
		if err != nil {
			return err
		}
		route = t.Path
	}
	return draw(p.out, r.Status, route)
}

// Measures of the drawing, in pixels.
const (
	cellWidth  = 84
	cellHeight = 130
	boxWidth   = 68
	boxHeight  = 34
	margin     = 24
	legend     = 36
)

// spot is the place of a node in the drawing.
type spot struct{ x, y int }

// rows returns the nodes by their distance from the adapters: adapters in the last row, their switches above them.
func rows(s *fabric.Status) [][]int {
	index := make(map[string]int)
	level := make([]int, len(s.Nodes))
	var queue []int
	for i, n := range s.Nodes {
		index[n.ID], level[i] = i, -1
		if n.Kind != "Switch" {
			level[i] = 0
			queue = append(queue, i)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, p := range s.Nodes[queue[0]].Ports {
			if k, ok := index[p.Peer]; ok && level[k] < 0 {
				level[k] = level[queue[0]] + 1
				queue = append(queue, k)
			}
		}
	}
	var out [][]int
	for i := range s.Nodes {
		l := max(level[i], 0)
		for len(out) <= l {
			out = append(out, nil)
		}
		out[l] = append(out[l], i)
	}
	slices.Reverse(out)
	return out
}

// style has colors that can be read on light and on dark pages. It uses no variables, which librsvg and Inkscape lack.
const style = `<style>
svg{font-family:sans-serif;font-size:11px}text{fill:#1f2328;text-anchor:middle}.small{font-size:9px}
.left{text-anchor:start}rect{stroke:#8c959f}.paper{fill:#ffffff;stroke:none}.Switch{fill:#ddf4ff}.CA,.Router{fill:#fff8c5}
line{stroke-width:1.5}.active{stroke:#1a7f37}.wait{stroke:#9a6700;stroke-dasharray:6 3}` +
	`.down{stroke:#cf222e;stroke-dasharray:2 4}.route{stroke:#8250df;stroke-width:4}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{stroke:#6e7681}.paper{fill:#0d1117}.Switch{fill:#0c2d6b}` +
	`.CA,.Router{fill:#3b2300}.active{stroke:#3fb950}.wait{stroke:#d29922}.down{stroke:#f85149}.route{stroke:#bc8cff}}
</style>
`

// draw writes a drawing of a fabric, with the links of a route emphasized.
func draw(out io.Writer, s *fabric.Status, route []hop) error {
	levels := rows(s)
	widest := 1
	for _, r := range levels {
		widest = max(widest, len(r))
	}
	width, height := 2*margin+max(widest*cellWidth, 4*120), 2*margin+len(levels)*cellHeight+legend-cellHeight+boxHeight
	at := make(map[string]spot)
	for l, r := range levels {
		for i, n := range r {
			at[s.Nodes[n].ID] = spot{margin + (2*i+1)*(width-2*margin)/(2*len(r)), margin + l*cellHeight + boxHeight/2}
		}
	}
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n%s"+
		"<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n", width, height, width, height, style)
	drawLinks(w, s, at, onRoute(route))
	for _, n := range s.Nodes {
		drawNode(w, &n, at[n.ID])
	}
	x := margin
	for _, l := range []struct{ class, text string }{{"active", "active"}, {"wait", "up, not active"}, {"down", "down"},
		{"route", "route"}} {
		fmt.Fprintf(w, "<line class=\"%s\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/><text class=\"left\" x=\"%d\" "+
			"y=\"%d\">%s</text>\n",
			l.class, x, height-margin/2-4, x+24, height-margin/2-4, x+30, height-margin/2, l.text)
		x += 120
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// onRoute returns the ports of a route.
func onRoute(route []hop) map[hop]bool {
	m := make(map[hop]bool)
	for _, h := range route {
		m[h] = true
	}
	return m
}

// drawLinks draws each link once. Links between the same nodes are drawn side by side.
func drawLinks(w io.Writer, s *fabric.Status, at map[string]spot, route map[hop]bool) {
	parallel := make(map[[2]string]int)
	for _, n := range s.Nodes {
		for _, p := range n.Ports {
			if p.Peer == "" || p.Peer < n.ID || p.Peer == n.ID && p.PeerPort < p.Num {
				continue
			}
			a, b := at[n.ID], at[p.Peer]
			pair := [2]string{n.ID, p.Peer}
			shift := 6 * parallel[pair]
			parallel[pair]++
			class := "wait"
			switch p.State {
			case "Active":
				class = "active"
			case "Down":
				class = "down"
			}
			if route[hop{n.ID, p.Num}] && route[hop{p.Peer, p.PeerPort}] {
				class = "route"
			}
			fmt.Fprintf(w, "<line class=\"%s\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"><title>%s</title></line>\n",
				class,
				a.x+shift, a.y, b.x+shift, b.y, escape(fmt.Sprintf("%s:%d - %s:%d %s %s", n.ID, p.Num,
					p.Peer, p.PeerPort,
					p.State, p.Rate)))
		}
	}
}

// drawNode draws a box with the name and the LIDs of a node.
func drawNode(w io.Writer, n *fabric.NodeStatus, at spot) {
	var lids []string
	if n.Kind == "Switch" {
		lids = append(lids, fmt.Sprint(n.LID))
	}
	for _, p := range n.Ports {
		if n.Kind != "Switch" && p.LID != 0 {
			lids = append(lids, fmt.Sprint(p.LID))
		}
	}
	name := n.Description
	if r := []rune(name); len(r) > 11 {
		name = string(r[:10]) + "…"
	}
	fmt.Fprintf(w, "<g><title>%s %s</title><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>"+
		"<text x=\"%d\" y=\"%d\">%s</text><text class=\"small\" x=\"%d\" y=\"%d\">LID %s</text></g>\n", n.Kind,
		escape(n.Description), n.Kind, at.x-boxWidth/2, at.y-boxHeight/2, boxWidth, boxHeight, at.x,
		at.y-2, escape(name),
		at.x, at.y+11, strings.Join(lids, " "))
}

// escape returns a text for XML.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
