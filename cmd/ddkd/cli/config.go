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
	"strconv"

	"go.yaml.in/yaml/v3"

	"ciddk/kproxy"
	"ciddk/ual"
)

// config is the configuration file.
type config struct {
	Socket            string      `yaml:"socket"`
	Mode              string      `yaml:"mode"`
	Log               string      `yaml:"log"`
	Adapters          []Settings  `yaml:"adapters"`
	Quota             quotaConfig `yaml:"quota"`
	MaxClients        int         `yaml:"max-clients"`
	MaxClientsPerUser int         `yaml:"max-clients-per-user"`
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

	Mappings int `yaml:"mappings"`

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
		Mappings:    q.Mappings,
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

// check validates the configuration and fills in what is left out. It returns the adapters with their drivers.
func (c *config) check(drivers []Driver) ([]adapter, error) {
	c.Socket = cmp.Or(c.Socket, os.Getenv("DDKD_SOCKET"), ual.DefaultPath)
	c.Mode, c.Log = cmp.Or(c.Mode, "0660"), cmp.Or(c.Log, "info")
	if _, err := c.fileMode(); err != nil {
		return nil, err
	}
	if _, err := c.level(); err != nil {
		return nil, err
	}
	if len(c.Adapters) == 0 {
		return nil, badConfig("no adapter; add one with --adapter %s", cmp.Or(drivers[0].Example, "KEY=VALUE,…"))
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
