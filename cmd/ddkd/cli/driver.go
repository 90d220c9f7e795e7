package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"ciddk/ci"
	"ciddk/internal/kproxy/uverbs"
)

// Settings are the keys and values of an adapter in the configuration, without the key driver.
type Settings map[string]string

// Driver opens adapters of one kind.
type Driver struct {
	Name        string
	Description string
	Keys        map[string]string // the keys that an adapter's configuration may have, and their meanings
	Example     string            // settings of an adapter, for messages: "address=192.0.2.1"

	// Verbs describes the user libraries of rdma-core that work with adapters of the driver, so that unmodified verbs
	// programs can use them. It may be empty.
	Verbs []uverbs.Provider

	// Check validates settings before anything is opened. The daemon exits with status 2 if it fails. It may be nil.
	Check func(Settings) error

	// Open opens an adapter, which is ready for the verbs when Open returns. If the HCA is an io.Closer, the daemon
	// closes it when nothing refers to it any more.
	Open func(ctx context.Context, s Settings, log *slog.Logger) (ci.HCA, error)
}

// driverKey selects the driver of an adapter.
const driverKey = "driver"

// adapter is an adapter of the configuration whose driver is known.
type adapter struct {
	driver   *Driver
	settings Settings
}

// parseAdapter parses an adapter on the command line: key=value pairs with commas.
func parseAdapter(s string) (Settings, error) {
	settings := Settings{}
	for pair := range strings.SplitSeq(s, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, badConfig("--adapter %s: want key=value pairs with commas between them", s)
		}
		settings[key] = value
	}
	return settings, nil
}

// resolve returns the adapter that settings describe. The default driver is the first one.
func resolve(drivers []Driver, settings Settings) (a adapter, err error) {
	name := cmp.Or(settings[driverKey], drivers[0].Name)
	i := slices.IndexFunc(drivers, func(d Driver) bool { return d.Name == name })
	if i < 0 {
		var names []string
		for _, d := range drivers {
			names = append(names, d.Name)
		}
		return a, fmt.Errorf("no driver %q; this program has %s", name, strings.Join(names, ", "))
	}
	a = adapter{driver: &drivers[i], settings: maps.Clone(settings)}
	delete(a.settings, driverKey)
	for key := range a.settings {
		if _, ok := a.driver.Keys[key]; !ok {
			return a, fmt.Errorf("no key %q; the driver %s has %s", key, name,
				strings.Join(slices.Sorted(maps.Keys(a.driver.Keys)), ", "))
		}
	}
	if a.driver.Check == nil {
		return a, nil
	}
	return a, a.driver.Check(a.settings)
}

// help describes the drivers and their keys.
func help(drivers []Driver) string {
	var b strings.Builder
	for _, d := range drivers {
		fmt.Fprintf(&b, "Driver %s (driver=%s): %s.", d.Name, d.Name, d.Description)
		for _, key := range slices.Sorted(maps.Keys(d.Keys)) {
			fmt.Fprintf(&b, "\n\n  %s: %s", key, d.Keys[key])
		}
		b.WriteString("\n\n")
	}
	return strings.TrimSpace(b.String())
}
