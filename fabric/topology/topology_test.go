package topology

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const small = `# two switches, as ibnetdiscover prints them
vendid=0x2c9
devid=0xbd36
sysimgguid=0x10
switchguid=0x20(20)
Switch	8 "S-20"		# "Switch one" base port 0 lid 2 lmc 0
[1]	"H-30"[1](31) 		# "Host" lid 1 4xEDR
[3]	"S-21"[4]	w=8 s=7

switchguid=0x21
Switch 4 "S-21"
[4]	"S-20"[3]	w=15 s=3

caguid=0x30
Ca	2 "H-30"		# "Host"
[1](31) 	"S-20"[1]		# lid 1 lmc 0 "Switch one" lid 2 4xEDR
`

// The format's parts arrive in the topology: assignments, descriptions, GUIDs and rates, also of links that both ends
// list.
func TestRead(t *testing.T) {
	got, err := Read(strings.NewReader(small), "small", nil)
	require.NoError(t, err)
	want := &Topology{Nodes: []Node{
		{Kind: Switch, ID: "S-20", Description: "Switch one", NumPorts: 8, GUID: 0x20, SystemGUID: 0x10,
			VendorID: 0x2c9,
			DeviceID: 0xbd36},
		{Kind: Switch, ID: "S-21", NumPorts: 4, GUID: 0x21, DeviceID: 0xbd36},
		{Kind: CA, ID: "H-30", Description: "Host", NumPorts: 2, GUID: 0x30, DeviceID: 0xbd36},
	}, Links: []Link{
		{A: End{0, 1}, B: End{2, 1}, Width: Width4x, Speed: EDR},
		{A: End{0, 3}, B: End{1, 4}, Width: Width12x, Speed: DDR},
	}}
	// w=8 is 12x alone, w=15 allows 12x; s=7 is QDR, s=3 DDR: the lower one of each holds.
	require.Equal(t, want, got)
	assert.Equal(t, 2, got.Find("H-30"))
	assert.Equal(t, 2, got.Find("Host"))
	assert.Equal(t, -1, got.Find("nobody"))
	assert.EqualValues(t, 0x31, got.Nodes[2].PortGUID(1))
	assert.EqualValues(t, 0x20, got.Nodes[0].PortGUID(3))
}

// The examples that ibsim-utils ships are read.
func TestReadIbsimExamples(t *testing.T) {
	files, _ := filepath.Glob("/usr/share/doc/ibsim-utils/net-examples/net*")
	if len(files) == 0 {
		t.Skip("no examples of ibsim: install ibsim-utils")
	}
	for _, f := range files {
		got, err := ReadFile(f)
		require.NoError(t, err, f)
		assert.NotEmpty(t, got.Links, f)
		assert.Positive(t, got.Count(CA), f)
		assert.Positive(t, got.Count(Switch), f)
	}
}

// Errors name the line and the remedy.
func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"Switch 8\n", "f:1: the record has no id"},
		{"Switch 0 \"S\"\n", "f:1: number of ports \"0\": want 1 to 254"},
		{"Switch 255 \"S\"\n", "f:1: number of ports"},
		{"Ca 1 \"a\"\n[2] \"b\"[1]\n", "f:2: port 2 of \"a\": it has ports 1 to 1"},
		{"Ca 1 \"a\"\n[1] \"b\"[1]\n", "f:2: the neighbor \"b\" is no node of the file"},
		{"Ca 1 \"a\"\n[1] \"a\"[1]\n", "f:2: port 1 of \"a\" is connected with itself"},
		{"Ca 1 \"a\"\n[1]\n", "f:2: port 1 has no neighbor"},
		{"Ca 1 \"a\"\n[x] \"a\"[1]\n", "f:2: want the number of a port in brackets"},
		{"Ca 1 \"a\"\n\n[1] \"a\"[1]\n", "f:3: the port line belongs to no node"},
		{"Ca 1 \"a\"\n[1] \"b\"[7]\n\nCa 1 \"b\"\n", "f:2: port 7 of the neighbor \"b\": it has ports 1 to 1"},
		{"Ca 1 \"a\"\n[1] \"b\"[1] w=99\n", "f:2: option behind the neighbor: want w=1 to 31"},
		{"Ca 1 \"a\"\n[1] \"b\"[1]\n\nCa 1 \"b\"\n\nCa 1 \"c\"\n[1] \"b\"[1]\n", "f:7: port 1 of \"b\" is connected"},
		{"Ca 1 \"a\"\n\nCa 1 \"a\"\n", "f:3: a second node with the id \"a\""},
		{"switchguid\n", "f:1: switchguid without a value"},
		{"switchguid=zzz\n", "f:1: switchguid: want a number of at most 64 bits"},
		{"caguid=0\n", "f:1: caguid=0"},
		{"caguid=0xffffffffffffffff\nCa 1 \"a\"\n", "f:2: GUID 0xffffffffffffffff"},
		{"Sitch 8 \"S\"\n", "f:1: the line begins no record"},
		{"include \"x\"\n", "f:1: include \"x\": the source has no files"},
		{"include\n", "f:1: include without a file name"},
		{"do link\n", "f:1: do is not supported"},
		{"@a\n", "f:1: port aliases are not supported"},
		{strings.Repeat("#", maxLine+1), "f:1: the line has more than 4096 bytes"},
		{"caguid=1\nCa 1 \"a\"\n\ncaguid=1\nCa 1 \"b\"\n", "have the GUID 0x1: change one"},
	} {
		_, err := Read(strings.NewReader(c.text), "f", nil)
		assert.ErrorContains(t, err, c.want, "%q", c.text)
	}
}

// include reads files relative to the including one, names their lines in errors, and ends at a cycle.
func TestInclude(t *testing.T) {
	fs := fstest.MapFS{
		"d/b": {Data: []byte("Ca 1 \"b\"\n[1] \"a\"[1]\n")},
		"d/e": {Data: []byte("\nCa 0 \"b\"\n")},
		"d/c": {Data: []byte("include \"c\"\n")},
	}
	open := func(name string) (io.ReadCloser, error) { return fs.Open(name) }
	got, err := Read(strings.NewReader("include \"b\"\nCa 1 \"a\"\n"), "d/a", open)
	require.NoError(t, err)
	assert.Len(t, got.Links, 1)
	_, err = Read(strings.NewReader("include \"e\"\n"), "d/a", open)
	assert.ErrorContains(t, err, "d/e:2: number of ports")
	_, err = Read(strings.NewReader("include \"c\"\n"), "d/a", open)
	assert.ErrorContains(t, err, "d/c:1: include \"c\": files are included 8 deep")
	_, err = Read(strings.NewReader("\ninclude \"missing\"\n"), "d/a", open)
	assert.ErrorContains(t, err, "d/a:2: include: open d/missing")
}

var generated = []struct {
	name       string
	make       func() (*Topology, error)
	cas, links int
	switches   int
}{
	{"fat tree of 2 levels", FatTree{Down: []int{4, 2}, Up: []int{1, 2}}.Generate, 8, 8 + 4, 4},
	{"fat tree of 3 levels", FatTree{Down: []int{2, 2, 4}, Up: []int{1, 2, 2}}.Generate, 16, 16 + 16 + 16, 8 + 8 + 4},
	{"ring", Torus{Size: []int{5}, Hosts: 1}.Generate, 5, 5 + 5, 5},
	{"torus of 2 dimensions", Torus{Size: []int{3, 4}, Hosts: 2}.Generate, 24, 24 + 24, 12},
	{"torus of 3 dimensions", Torus{Size: []int{3, 3, 2}, Hosts: 1}.Generate, 18, 18 + 18 + 18 + 9, 18},
	{"mesh", Torus{Size: []int{3, 3}, Hosts: 1, Mesh: true}.Generate, 9, 9 + 12, 9},
	{"dragonfly", Dragonfly{Switches: 4, Hosts: 2, Global: 2}.Generate, 9 * 8, 9*8 + 9*6 + 36, 36},
	{"dragonfly of 3 groups", Dragonfly{Groups: 3, Switches: 2, Hosts: 1, Global: 2}.Generate, 6, 6 + 3 + 6, 6},
}

// Generated topologies have the nodes and links of their formula, are connected, and survive writing and reading.
func TestGenerate(t *testing.T) {
	for _, c := range generated {
		t.Run(c.name, func(t *testing.T) {
			g, err := c.make()
			require.NoError(t, err)
			assert.Equal(t, c.cas, g.Count(CA))
			assert.Equal(t, c.switches, g.Count(Switch))
			assert.Len(t, g.Links, c.links)
			assert.Equal(t, len(g.Nodes), reachable(g))
			var b bytes.Buffer
			require.NoError(t, g.Write(&b))
			back, err := Read(&b, "generated", nil)
			require.NoError(t, err)
			assert.Equal(t, edges(g), edges(back))
			for i := range g.Nodes {
				g.Nodes[i].SystemGUID = back.Nodes[i].SystemGUID
			}
			assert.Equal(t, g.Nodes, back.Nodes)
		})
	}
}

// edges returns the links as texts, so that those of equal topologies are equal.
func edges(t *Topology) map[string]bool {
	m := make(map[string]bool)
	for i := range t.Links {
		l := t.Links[i]
		if l.B.Node < l.A.Node || l.B.Node == l.A.Node && l.B.Port < l.A.Port {
			l.A, l.B = l.B, l.A
		}
		w, s := l.Rate()
		m[fmt.Sprint(l.A, l.B, FormatRate(w, s))] = true
	}
	return m
}

// reachable returns the number of nodes that are connected with node 0.
func reachable(t *Topology) int {
	next := make(map[int][]int)
	for _, l := range t.Links {
		next[l.A.Node] = append(next[l.A.Node], l.B.Node)
		next[l.B.Node] = append(next[l.B.Node], l.A.Node)
	}
	seen := map[int]bool{0: true}
	for todo := []int{0}; len(todo) > 0; todo = todo[1:] {
		for _, n := range next[todo[0]] {
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return len(seen)
}

// Sizes out of range are errors, not allocations.
func TestGenerateErrors(t *testing.T) {
	for _, make := range []func() (*Topology, error){
		FatTree{}.Generate, FatTree{Down: []int{1}}.Generate, FatTree{Down: []int{0}, Up: []int{1}}.Generate,
		FatTree{Down: []int{1 << 20, 1 << 20, 1 << 20}, Up: []int{1, 1, 1}}.Generate,
		FatTree{Down: []int{300}, Up: []int{1}}.Generate,
		Torus{}.Generate, Torus{Size: []int{0}}.Generate, Torus{Size: []int{1 << 30, 1 << 30}}.Generate,
		Torus{Size: []int{2}, Hosts: 400}.Generate, Torus{Size: []int{2}, Hosts: -1}.Generate,
		Dragonfly{}.Generate, Dragonfly{Switches: 2, Groups: 3}.Generate,
		Dragonfly{Switches: 200, Hosts: 200}.Generate, Dragonfly{Switches: 100, Hosts: 50, Global: 50}.Generate,
	} {
		_, err := make()
		assert.Error(t, err)
	}
}

// ibsim accepts what Write writes.
func TestIbsimReadsWritten(t *testing.T) {
	ibsim, err := exec.LookPath("ibsim")
	if err != nil {
		t.Skip("ibsim is not installed: install ibsim-utils")
	}
	for _, c := range generated {
		g, err := c.make()
		require.NoError(t, err)
		for i := range g.Links {
			g.Links[i].Width, g.Links[i].Speed = Width12x, SDR+Speed(i%3)
		}
		file := filepath.Join(t.TempDir(), "net")
		f, err := os.Create(file)
		require.NoError(t, err)
		require.NoError(t, g.Write(f))
		require.NoError(t, f.Close())
		cmd := exec.CommandContext(t.Context(), ibsim, "-s", file)
		cmd.Stdin = strings.NewReader("dump\nquit\n")
		cmd.Env = append(os.Environ(), "IBSIM_SOCKNAME=topology-"+fmt.Sprint(os.Getpid()))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.NotContains(t, string(out), "fatal", c.name)
		for i := range g.Nodes {
			require.Contains(t, string(out), fmt.Sprintf("%q", g.Nodes[i].ID), c.name)
		}
		w, _ := g.Links[0].Rate()
		assert.Equal(t, Width12x, w)
		assert.Contains(t, string(out), "12x", c.name)
	}
}

// Rates are those of the masks of PortInfo.
func TestRates(t *testing.T) {
	for s := SDR; s <= NDR; s++ {
		base, extended := s.Supported()
		assert.Equal(t, s, SpeedOf(base, extended))
		for _, w := range []Width{Width1x, Width2x, Width4x, Width8x, Width12x} {
			assert.Equal(t, w, WidthOf(w.Supported()))
			gotW, gotS := ParseRate(FormatRate(w, s))
			assert.Equal(t, w, gotW)
			assert.Equal(t, s, gotS)
		}
	}
	assert.Equal(t, 10000, Mbps(Width4x, SDR))
	assert.Equal(t, 103124, Mbps(Width4x, EDR))
	assert.EqualValues(t, 1000, PicosPerByte(Width4x, SDR)) // 8 Gb/s of data
	assert.Zero(t, Mbps(Width4x, 0))
	assert.Zero(t, PicosPerByte(0, QDR))
}

// Any valid topology survives writing and reading.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Topology
		n := rapid.IntRange(1, 8).Draw(t, "nodes")
		for i := range n {
			k := Kind(rapid.IntRange(1, 3).Draw(t, "kind"))
			g.Nodes = append(g.Nodes, Node{Kind: k, ID: fmt.Sprintf("n %d", i),
				NumPorts: rapid.IntRange(1, 9).Draw(t, "ports"),
				GUID:     uint64(i+1) << 16, Description: rapid.SampledFrom([]string{"", "a # b", "x 4xQDR",
					"é"}).Draw(t, "text"),
				DeviceID: uint16(rapid.IntRange(0, 3).Draw(t, "device")), VendorID: uint32(rapid.IntRange(0,
					3).Draw(t, "vendor"))})
		}
		used := map[End]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "links") {
			var e [2]End
			for i := range e {
				e[i].Node = rapid.IntRange(0, n-1).Draw(t, "node")
				e[i].Port = rapid.IntRange(1, g.Nodes[e[i].Node].NumPorts).Draw(t, "port")
			}
			if used[e[0]] || used[e[1]] || e[0] == e[1] {
				continue
			}
			used[e[0]], used[e[1]] = true, true
			g.Links = append(g.Links, Link{A: e[0], B: e[1], Speed: Speed(rapid.IntRange(0, 7).Draw(t, "speed"))})
		}
		var b bytes.Buffer
		require.NoError(t, g.Write(&b))
		back, err := Read(bytes.NewReader(b.Bytes()), "x", nil)
		require.NoError(t, err, "%s", b.String())
		require.Equal(t, g.Nodes, back.Nodes)
		require.Equal(t, edges(&g), edges(back))
	})
}

// Bytes of any kind give a valid topology or an error with a line.
func FuzzRead(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("Rt 2 \"r\"\n[1](7f) \"r\"[2] w=2 s=0 e=1 # \"x\" lid 2 8xNDR\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := Read(bytes.NewReader(b), "f", nil)
		if err != nil {
			require.ErrorContains(t, err, "topology: ")
			return
		}
		require.NoError(t, g.Validate())
		var out bytes.Buffer
		require.NoError(t, g.Write(&out))
		back, err := Read(&out, "f", nil)
		require.NoError(t, err)
		require.Equal(t, edges(g), edges(back))
	})
}

// TestIncludeForeign includes what the user who reads the topology did not name: a device, which is not opened, and a
// file of another kind, whose contents are not in the error.
func TestIncludeForeign(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("root:hunter2:\n"), 0o600))
	for include, want := range map[string]string{os.DevNull: "no regular file", dir: "no regular file",
		secret: "secret:1: the line begins no record"} {
		path := filepath.Join(dir, "t.net")
		require.NoError(t, os.WriteFile(path, []byte("include \""+include+"\"\n"), 0o600))
		_, err := ReadFile(path)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}
