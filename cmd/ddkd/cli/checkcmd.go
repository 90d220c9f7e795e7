package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"ciddk/internal/command"
	"ciddk/kproxy"
)

// checkCmd validates a configuration file.
type checkCmd struct {
	Config string `arg:"" help:"Configuration file." type:"path" placeholder:"FILE"`

	drivers []Driver
}

// Run prints the configuration with the values that are left out, or returns what is wrong with it.
func (k *checkCmd) Run(ctx context.Context, w io.Writer) error {
	c, err := command.Await(ctx, k.checked)
	if err != nil {
		return err
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	defer e.Close()
	return e.Encode(c)
}

// checked returns the configuration with all values.
func (k *checkCmd) checked() (*config, error) {
	c, err := readConfig(k.Config)
	if err != nil {
		return nil, err
	}
	adapters, err := c.check(k.drivers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.Config, err)
	}
	if len(adapters) == 0 {
		return nil, badConfig("%s: no adapter; add one below the key adapters", k.Config)
	}
	c.fill(k.drivers)
	return c, nil
}

// fill fills in the values that a daemon uses for those that are left out. check has validated the configuration.
func (c *config) fill(drivers []Driver) {
	if len(providers(drivers)) > 0 {
		c.Verbs = cmp.Or(c.Verbs, c.Socket+verbsSuffix)
	}
	c.Quota = newQuotaConfig(c.Quota.quota().WithDefaults())
	c.MaxClients = cmp.Or(c.MaxClients, kproxy.DefaultMaxClients)
	c.MaxClientsPerUser = cmp.Or(c.MaxClientsPerUser, kproxy.DefaultMaxClientsPerUser)
	c.CopyMemory = cmp.Or(c.CopyMemory, copyOwn)
	c.CopyTimeout = cmp.Or(c.CopyTimeout, kproxy.DefaultCopyTimeout)
}
