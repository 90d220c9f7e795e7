package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"ciddk/internal/input"
	"ciddk/internal/kproxy/uverbs"
	"ciddk/kproxy"
	"ciddk/ual"
)

// config is the configuration file. Its keys, with quota- in front of those of the quota, are also flags.
type config struct {
	Socket     string        `yaml:"socket" help:"Path of the socket. Default: $DDKD_SOCKET, or ${default_socket}." placeholder:"PATH"`
	Mode       string        `yaml:"mode" help:"Mode of the socket: who may connect. Default: 0660." placeholder:"OCTAL"`
	Group      string        `yaml:"group" help:"Group of the socket, by name or number. Default: that of the daemon." placeholder:"GROUP"`
	Verbs      string        `yaml:"verbs" help:"Path of the socket for unmodified verbs programs (ddkrun), or none. Default: that of the socket with .verbs appended." placeholder:"PATH"`
	Log        string        `yaml:"log" help:"debug, info, warn or error. Default: info." placeholder:"LEVEL"`
	Metrics    string        `yaml:"metrics" help:"Where Prometheus reads metrics over HTTP: ADDRESS:PORT, or unix:PATH. Default: nowhere." placeholder:"WHERE"`
	Idle       time.Duration `yaml:"idle" help:"Stop when there was no client for this time. Default: never." placeholder:"TIME"`
	Drain      time.Duration `yaml:"drain" help:"Time in which clients may end their work when the daemon stops. Default: 5s." placeholder:"TIME"`
	DeviceName string        `yaml:"device-name" help:"Beginning of the names of RDMA devices in verbs programs; their numbers follow. Default: that of the user library, rxe_ddk." placeholder:"NAME"`

	Adapters []Settings  `yaml:"adapters" kong:"-"`
	Quota    quotaConfig `yaml:"quota" embed:"" prefix:"quota-"`

	CopyMemory  string        `yaml:"copy-memory" help:"Clients that may register memory which they allocated themselves: own (the daemon's user and root), all, none. Default: own." placeholder:"WHOSE"`
	CopyTimeout time.Duration `yaml:"copy-timeout" help:"Time in which a client must copy such memory, or its pages must come; other clients may wait for it. Default: 1s." placeholder:"TIME"`
	LimitCopies bool          `yaml:"limit-copies" help:"Apply copy-timeout to memory of the daemon's user and root, too. Each copy takes a few microseconds longer."`

	MaxClients        int `yaml:"max-clients" help:"Limit of clients. Default: 4096." placeholder:"N"`
	MaxClientsPerUser int `yaml:"max-clients-per-user" help:"Limit of clients of one user. Default: 1024." placeholder:"N"`
}

// verbsSuffix is what the default path of the socket for verbs programs ends with. noVerbs stands for no socket.
const (
	verbsSuffix = ".verbs"
	noVerbs     = "none"
)

// defaultDrain is config.Drain without a configuration.
const defaultDrain = 5 * time.Second

// badConfig returns an error of the configuration.
func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// maxConfig is the size of the largest configuration file, which has room for 10000 adapters.
const maxConfig = 1 << 20

// readConfig parses a file.
func readConfig(path string) (*config, error) {
	text, err := input.Read(path, maxConfig)
	if err != nil {
		return nil, err
	}
	c := new(config)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, badConfig("%s: %s", path, yamlError(err))
	}
	return c, nil
}

// unknownKey matches the parser's message for a key that config does not have.
var unknownKey = regexp.MustCompile(`^(line \d+): field (.*) not found in type \w+\.(\w+)$`)

// quotedValue matches a value that the parser quotes. Messages do not quote values: the path may be that of another
// file.
var quotedValue = regexp.MustCompile("(?s) `.*`")

// yamlError returns the parser's message in the words of the file: lines and keys instead of Go types and values.
func yamlError(err error) string {
	e, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	var lines []string
	for _, text := range e.Errors {
		if m := unknownKey.FindStringSubmatch(text); m != nil {
			of := reflect.TypeFor[config]()
			if m[3] == reflect.TypeFor[quotaConfig]().Name() {
				of = reflect.TypeFor[quotaConfig]()
			}
			text = fmt.Sprintf("%s: no key %q; there are %s", m[1], m[2], strings.Join(keys(of), ", "))
		}
		text = quotedValue.ReplaceAllString(text, "")
		lines = append(lines, strings.NewReplacer(" into []cli.Settings", " as a list of adapters",
			" into cli.Settings", " as the keys of an adapter", " into cli.quotaConfig", " as keys of the quota",
			" into cli.config", " as the keys of the file", " into time.Duration", " as a time, such as 5s",
			" into int64", " as a number", " into int", " as a number", " into string", " as text",
			"!!seq", "a list", "!!map", "keys", "!!str", "text", "!!int", "a number", "!!bool", "true or false",
			"!!float", "a number").Replace(text))
	}
	return strings.Join(lines, "; ")
}

// keys returns the keys of a structure of the configuration.
func keys(t reflect.Type) (list []string) {
	for field := range t.Fields() {
		list = append(list, field.Tag.Get("yaml"))
	}
	return list
}

// overlay replaces the values of c by those of over that are set. Adapters are added.
func (c *config) overlay(over *config) {
	adapters := slices.Concat(c.Adapters, over.Adapters)
	overlay(reflect.ValueOf(c).Elem(), reflect.ValueOf(over).Elem())
	c.Adapters = adapters
}

func overlay(to, from reflect.Value) {
	for i := range to.NumField() {
		switch f := from.Field(i); {
		case f.Kind() == reflect.Struct:
			overlay(to.Field(i), f)
		case !f.IsZero():
			to.Field(i).Set(f)
		}
	}
}

// check validates the configuration and fills in what is left out. It returns the adapters with their drivers.
func (c *config) check(drivers []Driver) ([]adapter, error) {
	c.Socket = cmp.Or(c.Socket, os.Getenv("DDKD_SOCKET"), ual.DefaultPath)
	c.Mode, c.Log, c.Drain = cmp.Or(c.Mode, "0660"), cmp.Or(c.Log, "info"), cmp.Or(c.Drain, defaultDrain)
	if _, err := c.fileMode(); err != nil {
		return nil, err
	}
	if _, err := c.level(); err != nil {
		return nil, err
	}
	if _, err := c.groupID(); err != nil {
		return nil, err
	}
	if _, _, err := c.metricsAddress(); err != nil {
		return nil, err
	}
	if c.Drain < 0 || c.Idle < 0 || c.CopyTimeout < 0 {
		return nil, badConfig("drain %v, idle %v, copy-timeout %v: want positive times", c.Drain, c.Idle,
			c.CopyTimeout)
	}
	if err := c.Quota.check(); err != nil {
		return nil, err
	}
	if _, err := c.canCopy(); err != nil {
		return nil, err
	}
	if c.DeviceName != "" && !uverbs.ValidName(c.DeviceName) {
		return nil, badConfig("device-name %q: want at most %d letters, digits, hyphens and underscores", c.DeviceName,
			uverbs.MaxName)
	}
	if c.MaxClients < 0 || c.MaxClientsPerUser < 0 {
		return nil, badConfig("max-clients and max-clients-per-user: want positive numbers")
	}
	var list []adapter
	for i, settings := range c.Adapters {
		a, err := resolve(drivers, settings)
		if err != nil {
			return nil, badConfig("adapter %d: %v", i+1, err)
		}
		list = append(list, a)
	}
	return list, nil
}

func (c *config) fileMode() (fs.FileMode, error) {
	n, err := strconv.ParseUint(c.Mode, 8, 32)
	if err != nil || n > 0o777 {
		return 0, badConfig("mode %q: want an octal number up to 0777", c.Mode)
	}
	return fs.FileMode(n), nil
}

func (c *config) level() (l slog.Level, err error) {
	if err := l.UnmarshalText([]byte(c.Log)); err != nil {
		return 0, badConfig("log %q: want debug, info, warn or error", c.Log)
	}
	return l, nil
}

// groupID returns the number of the socket's group, -1 for the daemon's own.
func (c *config) groupID() (int, error) {
	if c.Group == "" {
		return -1, nil
	}
	if n, err := strconv.ParseUint(c.Group, 10, 31); err == nil {
		return int(n), nil
	}
	g, err := user.LookupGroup(c.Group)
	if err != nil {
		return 0, badConfig("group %q: this machine has no such group (create it with groupadd, or set another)",
			c.Group)
	}
	n, err := strconv.Atoi(g.Gid)
	if err != nil {
		return 0, badConfig("group %q has the id %q, which is not a number", c.Group, g.Gid)
	}
	return n, nil
}

// metricsAddress returns the network and the address of the metrics, "" for none.
func (c *config) metricsAddress() (network, address string, err error) {
	if c.Metrics == "" {
		return "", "", nil
	}
	if path, ok := strings.CutPrefix(c.Metrics, "unix:"); ok && path != "" {
		return "unix", path, nil
	}
	if i := strings.LastIndexByte(c.Metrics, ':'); i >= 0 {
		if _, err := strconv.ParseUint(c.Metrics[i+1:], 10, 16); err == nil {
			return "tcp", c.Metrics, nil
		}
	}
	return "", "", badConfig("metrics %q: want ADDRESS:PORT, such as 127.0.0.1:9471, or unix:PATH", c.Metrics)
}

// copyOwn is the default of config.CopyMemory.
const copyOwn = "own"

// canCopy returns kproxy.Config.CanCopy.
func (c *config) canCopy() (func(kproxy.Peer) bool, error) {
	switch c.CopyMemory {
	case "", copyOwn:
		return nil, nil // the default of package kproxy
	case "all":
		return func(kproxy.Peer) bool { return true }, nil
	case "none":
		return func(kproxy.Peer) bool { return false }, nil
	}
	return nil, badConfig("copy-memory %q: want own, all or none", c.CopyMemory)
}
