package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/kproxy"
)

// TestFlagsAndKeys checks that every key of the configuration file is a flag of serve, and the other way round.
func TestFlagsAndKeys(t *testing.T) {
	var want []string
	var add func(prefix string, of reflect.Type)
	add = func(prefix string, of reflect.Type) {
		for f := range of.Fields() {
			switch f.Type.Kind() {
			case reflect.Struct:
				add(prefix+f.Tag.Get("yaml")+"-", f.Type)
			default:
				want = append(want, prefix+f.Tag.Get("yaml"))
			}
		}
	}
	add("", reflect.TypeFor[config]())
	var s serveCmd
	k, err := kong.New(&s, kong.Vars{"default_socket": ""})
	require.NoError(t, err)
	var have []string
	for _, f := range k.Model.Flags {
		switch f.Name {
		case "help", "config":
		case "adapter":
			have = append(have, "adapters")
		default:
			have = append(have, f.Name)
		}
	}
	assert.ElementsMatch(t, want, have)
}

// TestOverlay checks that flags take precedence over the file, value by value, and that adapters are added.
func TestOverlay(t *testing.T) {
	c := &config{Socket: "a", Mode: "0600", Drain: time.Second, Adapters: []Settings{{"address": "1"}},
		Quota: quotaConfig{QPs: 1, MRs: 2}}
	c.overlay(&config{Mode: "0640", Adapters: []Settings{{"address": "2"}}, Quota: quotaConfig{MRs: 3}, MaxClients: 4})
	assert.Equal(t, &config{Socket: "a", Mode: "0640", Drain: time.Second,
		Adapters: []Settings{{"address": "1"}, {"address": "2"}}, Quota: quotaConfig{QPs: 1, MRs: 3}, MaxClients: 4}, c)
}

// TestFileMistakes checks that mistakes in the file are reported in the words of the file, with the line.
func TestFileMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"log: info\ncolour: red\n":           `line 2: no key "colour"; there are socket, mode, group, verbs, log,`,
		"quota:\n  qps: 1\n  qpz: 2\n":       `line 3: no key "qpz"; there are pds, avs,`,
		"adapters: 5\n":                      "line 1: cannot unmarshal a number as a list of adapters",
		"adapters:\n  - 10.0.0.1\n":          "line 2: cannot unmarshal text as the keys of an adapter",
		"drain: soon\n":                      "line 1: cannot unmarshal text as a time, such as 5s",
		"quota:\n  qps: many\n":              "line 2: cannot unmarshal text as a number",
		"quota: [\n":                         "line 1: did not find",
		"log: info\nlog: debug\n":            "line 2: mapping key \"log\" already defined at line 1",
		"adapters:\n  - address: [1, 2]\n":   "line 2: cannot unmarshal a list as text",
		"adapters:\n  - {address: {a: 1}}\n": "line 2: cannot unmarshal keys as text",
	} {
		file := filepath.Join(t.TempDir(), "ddkd.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := readConfig(file)
		require.ErrorIs(t, err, errUsage, text)
		assert.ErrorContains(t, err, want, text)
		assert.NotContains(t, err.Error(), "cli.", text)
	}
}

// TestValues checks that values out of range are reported with what is wanted.
func TestValues(t *testing.T) {
	for want, c := range map[string]config{
		"octal":               {Mode: "999"},
		"debug, info":         {Log: "loud"},
		"no such group":       {Group: "no-such-group-here"},
		"127.0.0.1:9471":      {Metrics: "9471"},
		"unix:PATH":           {Metrics: "unix:"},
		"positive time":       {Drain: -1},
		"quota qps":           {Quota: quotaConfig{QPs: -1}},
		"max-clients":         {MaxClients: -1},
		"device-name \"a/b\"": {DeviceName: "a/b"},
		"own, all or none":    {CopyMemory: "some"},
		"adapter 1: no drive": {Adapters: []Settings{{"driver": "acme"}}},
	} {
		_, err := c.check([]Driver{{Name: "one"}})
		require.ErrorIs(t, err, errUsage, want)
		assert.ErrorContains(t, err, want)
	}
	for metrics, want := range map[string][2]string{"": {}, ":9471": {"tcp", ":9471"}, "[::1]:80": {"tcp", "[::1]:80"},
		"unix:/run/m": {"unix", "/run/m"}} {
		network, address, err := (&config{Metrics: metrics}).metricsAddress()
		require.NoError(t, err)
		assert.Equal(t, want, [2]string{network, address})
	}
}

// TestCopyMemory checks whose memory the daemon copies.
func TestCopyMemory(t *testing.T) {
	for value, want := range map[string]bool{"all": true, "none": false} {
		can, err := (&config{CopyMemory: value}).canCopy()
		require.NoError(t, err)
		assert.Equal(t, want, can(kproxy.Peer{UID: 4711}), value)
	}
	can, err := (&config{}).canCopy()
	require.NoError(t, err)
	assert.Nil(t, can, "the default of package kproxy")
}

// TestMetricsDocumented checks that the documentation has every metric.
func TestMetricsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/ddkd.md")
	require.NoError(t, err)
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for _, f := range families {
		m := name.FindStringSubmatch(f.desc.String())
		require.Len(t, m, 2, f.desc.String())
		assert.Contains(t, string(page), "`"+m[1]+"`")
	}
}
