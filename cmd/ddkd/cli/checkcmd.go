package cli

import (
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// checkCmd validates a configuration file.
type checkCmd struct {
	Config string `arg:"" help:"Configuration file." type:"path" placeholder:"FILE"`

	drivers []Driver
}

// Run prints the configuration with the values that are left out, or returns what is wrong with it.
func (k *checkCmd) Run(w io.Writer) error {
	c, err := readConfig(k.Config)
	if err != nil {
		return err
	}
	adapters, err := c.check(k.drivers)
	if err != nil {
		return fmt.Errorf("%s: %w", k.Config, err)
	}
	if len(adapters) == 0 {
		return badConfig("%s: no adapter; add one below the key adapters", k.Config)
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	defer e.Close()
	return e.Encode(c)
}
