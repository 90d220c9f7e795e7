package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
)

// TestNames checks that reports name the adapters of the kit.
func TestNames(t *testing.T) {
	c := validate.MustCatalog(validate.Suite{Cases: []validate.Case{{
		ID: "names.none", Title: "none", Requirements: []string{"SAS-0-01"}, Feature: validate.FeatureCore,
		Run: func(*validate.T) {},
	}}})
	list := drivers()
	for _, tt := range []struct {
		d          validate.Driver
		link, name string
	}{
		{list[0], "direct", "the kit's software adapter (vendor ffffff, device dd01)"},
		{list[1], "infiniband", "Mellanox ConnectX-3 (vendor 0002c9, device 1003)"},
		{list[1], "ethernet", "Mellanox ConnectX-3 Pro (vendor 0002c9, device 1007)"},
	} {
		o := validate.Options{Seed: 1, Link: tt.link}
		p := validate.Plan{Catalog: c, Driver: tt.d, Setting: validate.Setting{Profile: "full", Options: o}}
		r, err := p.Run(t.Context())
		require.NoError(t, err)
		require.NotNil(t, r.Identity)
		assert.Equal(t, tt.name, r.Identity.Adapter())
		assert.Contains(t, r.Host.String(), r.Tool.Platform)
	}
}
