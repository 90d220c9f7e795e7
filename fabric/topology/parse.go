package topology

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A parser reads net files line by line.
type parser struct {
	open  func(string) (io.ReadCloser, error)
	at    SyntaxError // the current place
	lines int         // of all files

	t       Topology
	nodes   map[string]int
	current int // index of the record's node plus 1; 0 outside of a record
	guids   map[Kind]uint64
	vendor  uint32
	device  uint16
	system  uint64
	cables  []cable
}

// cable is a port line: one end of a link.
type cable struct {
	from  End
	to    string
	port  int
	width Width
	speed Speed
	at    SyntaxError
}

func (p *parser) errorf(format string, args ...any) error {
	e := p.at
	e.Detail = fmt.Sprintf(format, args...)
	return &e
}

// endRecord ends the record of a node.
func (p *parser) endRecord() { p.current = 0 }

// line parses one line. It returns the name of the file that an include line names.
func (p *parser) line(text string) (include string, err error) {
	text = strings.TrimRight(text, " \t\r")
	if text == "" {
		p.endRecord()
		return "", nil
	}
	if text[0] == '[' {
		return "", p.port(text)
	}
	if text[0] == '#' {
		return "", nil
	}
	p.endRecord()
	word := text[:len(text)-len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))]
	switch word {
	case "Switch":
		return "", p.node(Switch, text[len(word):])
	case "Ca", "Hca":
		return "", p.node(CA, text[len(word):])
	case "Rt":
		return "", p.node(Router, text[len(word):])
	case "switchguid", "switchguids":
		return "", p.guid(Switch, word, text)
	case "caguid", "caguids", "hcaguid", "hcaguids":
		return "", p.guid(CA, word, text)
	case "rtguid", "rtguids":
		return "", p.guid(Router, word, text)
	case "vendid":
		v, err := p.number(word, text, 24)
		p.vendor = uint32(v)
		return "", err
	case "devid":
		v, err := p.number(word, text, 16)
		p.device = uint16(v)
		return "", err
	case "sysimgguid":
		p.system, err = p.number(word, text, 64)
		return "", err
	case "include":
		file, _, ok := quoted(text[len(word):])
		if !ok || file == "" {
			return "", p.errorf("include without a file name: write include \"file\"")
		}
		return file, nil
	case "Chassis", "Non": // headings of ibnetdiscover --grouping
		return "", nil
	case "do", "module", "width", "speed", "extspeed", "pdebug":
		return "", p.errorf("%s is not supported: remove the line (rates of links stand in their lines: w= s= e=)",
			word)
	}
	if text[0] == '@' {
		return "", p.errorf("port aliases are not supported: write the id and the port of the neighbor")
	}
	return "",
		p.errorf("the line begins no record: want Switch, Ca, Rt, a port in brackets, or an assignment such as " +
			"switchguid=")
}

// number parses an assignment.
func (p *parser) number(word, text string, bits int) (uint64, error) {
	rest := strings.TrimSpace(text[len(word):])
	if !strings.HasPrefix(rest, "=") {
		return 0, p.errorf("%s without a value: write %s=0x1", word, word)
	}
	value, _, _ := strings.Cut(strings.TrimSpace(rest[1:]), "(") // ibnetdiscover appends the port GUID
	value, _, _ = strings.Cut(value, "#")
	v, err := strconv.ParseUint(strings.TrimSpace(value), 0, bits)
	if err != nil {
		return 0, p.errorf("%s: want a number of at most %d bits", word, bits)
	}
	return v, nil
}

// guid parses the GUID of the next node of a kind.
func (p *parser) guid(k Kind, word, text string) error {
	v, err := p.number(word, text, 64)
	if err == nil && v == 0 {
		err = p.errorf("%s=0: 0 is no GUID", word)
	}
	if err == nil {
		p.guids[k] = v
	}
	return err
}

// quoted returns the text between the first two quotes of s, and what follows.
func quoted(s string) (text, rest string, ok bool) {
	_, s, ok = strings.Cut(s, `"`)
	if !ok {
		return "", "", false
	}
	return strings.Cut(s, `"`)
}

// node parses the header of a record, after its first word.
func (p *parser) node(k Kind, rest string) error {
	digits := strings.TrimLeft(rest, " \t")
	end := len(digits) - len(strings.TrimLeft(digits, "0123456789"))
	ports, err := strconv.Atoi(digits[:end])
	if err != nil || ports < 1 || ports > MaxPorts {
		return p.errorf("number of ports %.40q: want 1 to %d after %v", digits[:end], MaxPorts, k)
	}
	id, rest, ok := quoted(digits[end:])
	if !ok {
		return p.errorf("the record has no id: write %v %d \"id\"", k, ports)
	}
	if len(p.t.Nodes) >= MaxNodes {
		return p.errorf("more than %d nodes: a subnet has no LIDs for them", MaxNodes)
	}
	n := Node{Kind: k, ID: id, NumPorts: ports, GUID: p.guids[k], SystemGUID: p.system, VendorID: p.vendor,
		DeviceID: p.device}
	if _, comment, ok := strings.Cut(rest, "#"); ok {
		if d, _, ok := quoted(comment); ok && d != id {
			n.Description = d
		}
	}
	if n.SystemGUID == n.GUID {
		n.SystemGUID = 0
	}
	if _, taken := p.nodes[id]; taken {
		return p.errorf("a second node with the id %q: rename one", id)
	}
	if err := n.validate(); err != nil {
		return p.errorf("%s", strings.TrimPrefix(err.Error(), "topology: "))
	}
	step := uint64(1)
	if k != Switch {
		step += uint64(ports)
	}
	if n.GUID > math.MaxUint64-step {
		return p.errorf("GUID %#x: the GUIDs of the ports overflow: use a smaller one", n.GUID)
	}
	p.guids[k] = n.GUID + step
	p.vendor, p.system = 0, 0
	p.nodes[id] = len(p.t.Nodes)
	p.t.Nodes = append(p.t.Nodes, n)
	p.current = len(p.t.Nodes)
	return nil
}

// port parses a port line: [1](guid) "id"[2] w=2 # … 4xQDR.
func (p *parser) port(text string) error {
	if p.current == 0 {
		return p.errorf("the port line belongs to no node: write it below Switch, Ca or Rt, without an empty line")
	}
	n := &p.t.Nodes[p.current-1]
	num, rest, err := p.bracket(text)
	if err != nil {
		return err
	}
	if num < 1 || num > n.NumPorts {
		return p.errorf("port %d of %q: it has ports 1 to %d", num, n.ID, n.NumPorts)
	}
	if strings.HasPrefix(rest, "(") {
		var text string
		text, rest, _ = strings.Cut(rest[1:], ")")
		g, err := strconv.ParseUint(text, 16, 64)
		if err != nil || g == 0 {
			return p.errorf("GUID of port %d: want hexadecimal digits", num)
		}
		if n.Kind != Switch && g != n.GUID+uint64(num) {
			if n.PortGUIDs == nil {
				n.PortGUIDs = make(map[int]uint64)
			}
			n.PortGUIDs[num] = g
		}
	}
	c := cable{from: End{p.current - 1, num}, port: 1, at: p.at}
	var ok bool
	if c.to, rest, ok = quoted(rest); !ok {
		return p.errorf("port %d has no neighbor: write [%d] \"id\"[port]", num, num)
	}
	if strings.HasPrefix(rest, "[") {
		if c.port, rest, err = p.bracket(rest); err != nil {
			return err
		}
	}
	if c.width, c.speed, err = p.rate(rest); err != nil {
		return err
	}
	p.cables = append(p.cables, c)
	return nil
}

// bracket parses a number in brackets at the start of s.
func (p *parser) bracket(s string) (n int, rest string, err error) {
	text, rest, ok := strings.Cut(s[1:], "]")
	n, convErr := strconv.Atoi(strings.TrimSpace(text))
	if !ok || convErr != nil {
		return 0, "", p.errorf("want the number of a port in brackets, as in [1]")
	}
	return n, rest, nil
}

// rate parses what follows the neighbor in a port line.
func (p *parser) rate(rest string) (Width, Speed, error) {
	options, comment, _ := strings.Cut(rest, "#")
	var width Width
	var base, extended uint8
	for f := range strings.FieldsSeq(options) {
		if strings.HasPrefix(f, "(") { // the GUID of the neighbor
			continue
		}
		name, value, ok := strings.Cut(f, "=")
		v, err := strconv.ParseUint(value, 0, 8)
		if !ok || err != nil {
			return 0, 0, p.errorf("option behind the neighbor: want w=, s= or e= with a number")
		}
		switch {
		case name == "w" && v >= 1 && v <= 31:
			width = WidthOf(uint8(v))
		case name == "s" && v <= 7:
			if base = uint8(v); v == 0 {
				base = 4
			}
		case name == "e" && v <= 15:
			extended = uint8(v)
		default:
			return 0, 0,
				p.errorf("option behind the neighbor: want w=1 to 31, s=0 to 7 or e=0 to 15, masks of PortInfo")
		}
	}
	speed := SpeedOf(base, extended)
	fields := strings.Fields(comment)
	for _, field := range slices.Backward(fields) {
		if w, s := ParseRate(field); w != 0 {
			if width == 0 {
				width = w
			}
			if speed == 0 {
				speed = s
			}
			break
		}
	}
	return width, speed, nil
}

// finish joins the ends of links.
func (p *parser) finish() (*Topology, error) {
	type half struct {
		link int
		cable
	}
	links := make(map[End]half, 2*len(p.cables))
	for _, c := range p.cables {
		p.at = c.at
		id, ok := p.nodes[c.to]
		if !ok {
			return nil, p.errorf("the neighbor %q is no node of the file: add its record, or correct the id", c.to)
		}
		n := &p.t.Nodes[id]
		to := End{id, c.port}
		if c.port < 1 || c.port > n.NumPorts {
			return nil, p.errorf("port %d of the neighbor %q: it has ports 1 to %d", c.port, c.to, n.NumPorts)
		}
		if to == c.from {
			return nil, p.errorf("port %d of %q is connected with itself", c.port, c.to)
		}
		if h, ok := links[c.from]; ok {
			l := &p.t.Links[h.link]
			if l.A != to || l.B != c.from {
				return nil, p.errorf("port %d is connected to another port in line %d: remove one",
					c.from.Port, h.at.Line)
			}
			l.Width, l.Speed = lower(l.Width, c.width), lower(l.Speed, c.speed)
			continue
		}
		if h, ok := links[to]; ok {
			return nil, p.errorf("port %d of %q is connected to another port in line %d: remove one", c.port,
				c.to, h.at.Line)
		}
		h := half{len(p.t.Links), c}
		links[c.from], links[to] = h, h
		p.t.Links = append(p.t.Links, Link{A: c.from, B: to, Width: c.width, Speed: c.speed})
	}
	if err := p.t.Validate(); err != nil {
		return nil, err
	}
	return &p.t, nil
}

// lower returns the smaller of two values that are set.
func lower[T Width | Speed](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
