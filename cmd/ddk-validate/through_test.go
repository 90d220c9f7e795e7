package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/cmd/ddk-validate/cli"
	"ciddk/validate"
)

// TestThroughAccessLayer runs cases of objects, events and traffic through the access layer.
func TestThroughAccessLayer(t *testing.T) {
	var out, errs bytes.Buffer
	config := testConfig()
	config.Stdout, config.Stderr = &out, &errs
	code := cli.Main(config, []string{"run", "reference", "--through", "accesslayer", "--link", "direct",
		"--in-process", "--profile", "full", "--quiet", "--case", "open.*", "--case", "order.*", "--case", "pd.*",
		"--case", "callbacks.*", "--case", "events.*", "--case", "rc.*", "--case", "claims.works.user",
		"--case", "foreign.*"})
	require.Equal(t, validate.ExitCertified, code, "%s%s", out.String(), errs.String())
	assert.Contains(t, out.String(), "reference-through-accesslayer")
}
