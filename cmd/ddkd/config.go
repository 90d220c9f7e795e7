package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"ciddk/kproxy"
	"ciddk/ual"
)

// config is the configuration file.
type config struct {
	Socket            string          `yaml:"socket"`
	Mode              string          `yaml:"mode"`
	Log               string          `yaml:"log"`
	Adapters          []adapterConfig `yaml:"adapters"`
	Quota             quotaConfig     `yaml:"quota"`
	MaxClients        int             `yaml:"max-clients"`
	MaxClientsPerUser int             `yaml:"max-clients-per-user"`
}

// adapterConfig describes an adapter with one port.
type adapterConfig struct {
	Link      string `yaml:"link"`
	Address   string `yaml:"address"`
	Interface string `yaml:"interface"`
	Port      uint16 `yaml:"port"`
}

// quotaConfig is kproxy.Quota.
type quotaConfig struct {
	PDs    int   `yaml:"pds"`
	AVs    int   `yaml:"avs"`
	CQs    int   `yaml:"cqs"`
	SRQs   int   `yaml:"srqs"`
	QPs    int   `yaml:"qps"`
	MRs    int   `yaml:"mrs"`
	MWs    int   `yaml:"mws"`
	Mcasts int   `yaml:"multicast"`
	Queues int64 `yaml:"queues"` // bytes
	Memory int64 `yaml:"memory"` // bytes
	Events int   `yaml:"events"`

	EventQueues int `yaml:"event-queues"`
	Pending     int `yaml:"pending"`
}

func (q quotaConfig) quota() kproxy.Quota {
	return kproxy.Quota{
		PDs:         q.PDs,
		AVs:         q.AVs,
		CQs:         q.CQs,
		SRQs:        q.SRQs,
		QPs:         q.QPs,
		MRs:         q.MRs,
		MWs:         q.MWs,
		Mcasts:      q.Mcasts,
		EventQueues: q.EventQueues,
		QueueBytes:  q.Queues,
		MemoryBytes: q.Memory,
		Events:      q.Events,
		Pending:     q.Pending,
	}
}

// badConfig returns an error of the configuration.
func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// readConfig parses a file.
func readConfig(path string) (*config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := new(config)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, badConfig("%s: %v", path, err)
	}
	return c, nil
}

// parseAdapter parses an adapter on the command line: key=value pairs with commas.
func parseAdapter(s string) (a adapterConfig, err error) {
	for _, pair := range strings.Split(s, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return a, badConfig("--adapter %s: want key=value pairs, such as address=192.0.2.1,port=4791", s)
		}
		switch key {
		case "link":
			a.Link = value
		case "address":
			a.Address = value
		case "interface":
			a.Interface = value
		case "port":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return a, badConfig("--adapter %s: port %q: want 1 to 65535", s, value)
			}
			a.Port = uint16(n)
		default:
			return a, badConfig("--adapter %s: no key %q; there are link, address, interface and port", s, key)
		}
	}
	return a, nil
}

// check validates the configuration and fills in what is left out.
func (c *config) check() error {
	c.Socket = cmp.Or(c.Socket, os.Getenv("DDKD_SOCKET"), ual.DefaultPath)
	c.Mode, c.Log = cmp.Or(c.Mode, "0660"), cmp.Or(c.Log, "info")
	if _, err := c.fileMode(); err != nil {
		return err
	}
	if _, err := c.level(); err != nil {
		return err
	}
	if len(c.Adapters) == 0 {
		return badConfig("no adapter; add one with --adapter address=ADDRESS, ADDRESS being one of this machine's")
	}
	for i := range c.Adapters {
		if err := c.Adapters[i].check(); err != nil {
			return badConfig("adapter %d: %v", i+1, err)
		}
	}
	return nil
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

func (a *adapterConfig) check() error {
	a.Link = cmp.Or(a.Link, "udp")
	switch {
	case a.Link != "udp" && a.Link != "network":
		return fmt.Errorf("no link %q; there are udp and network (link/sim, a simulated network within the daemon)",
			a.Link)
	case a.Address == "" && a.Interface == "":
		return errors.New("address or interface is required")
	case a.Address != "" && a.Interface != "":
		return errors.New("address and interface exclude each other")
	case a.Link == "network" && (a.Address == "" || a.Port != 0):
		return errors.New("the link network has an address, and neither an interface nor a port")
	}
	if a.Address != "" {
		if _, err := netip.ParseAddr(a.Address); err != nil {
			return fmt.Errorf("address: %w", err)
		}
	}
	return nil
}
