package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/cmd/ddk-validate/cli"
	"ciddk/internal/testenv"
	"ciddk/validate"
)

// TestMLX4 certifies the ConnectX-3 driver on models: some cases of each area, on one kind of link and bus at a time.
func TestMLX4(t *testing.T) {
	areas := []string{"rc.*", "rdma.*", "ud.*", "uc.*", "srq.*", "mr.*", "qp.*", "cq.*", "order.*", "mcast.*"}
	cases := append([]string{"open.*"}, testenv.Sample(t, areas, 3)...)
	for _, args := range testenv.Sample(t, [][]string{{"--link", "infiniband"}, {"--link", "ethernet"},
		{"--link", "ethernet", "--set", "roce=1"}, {"--link", "infiniband", "--set", "bus=vfio-user"},
		{"--link", "ethernet", "--set", "bus=vfio-user"}, {"--link", "infiniband", "--set", "odd=1"},
		{"--link", "ethernet", "--set", "odd=1"}}, 7) {
		if testenv.Race && slices.Contains(args, "bus=vfio-user") {
			// The model stores data through the twin socket and completions through the file that both map. The race
			// detector knows no order between them, since it takes two mappings of a page for two pages.
			continue
		}
		var out, errs bytes.Buffer
		config := testConfig()
		config.Stdout, config.Stderr = &out, &errs
		args = append([]string{"run", "mlx4", "--in-process", "--quiet", "--timeout", "1m", "--profile", "ud"}, args...)
		for _, c := range cases {
			args = append(args, "--case", c)
		}
		assert.Equal(t, validate.ExitCertified, cli.Main(config, args), "%v\n%s%s", args, out.String(), errs.String())
	}
}

// TestMLX4Settings checks that wrong settings are mistakes of the command line.
func TestMLX4Settings(t *testing.T) {
	for _, args := range [][]string{
		{"--link", "infiniband", "--set", "roce=1"}, {"--link", "ethernet", "--set", "roce=3"},
		{"--link", "fabric", "--set", "nodes=a,b"}, {"--link", "udp"}, {"--set", "bus=pci"}, {"--set", "odd=2"},
		{"--link", "fabric", "--set", "odd=1"},
	} {
		var out, errs bytes.Buffer
		config := testConfig()
		config.Stdout, config.Stderr = &out, &errs
		code := cli.Main(config, append([]string{"run", "mlx4", "--in-process"}, args...))
		assert.Equal(t, validate.ExitUsage, code, "%v: %s%s", args, out.String(), errs.String())
	}
}
