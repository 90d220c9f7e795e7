package validate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"ciddk/ci"
)

// Driver is one kind of HCA under test.
type Driver struct {
	Name        string   // as given on the command line: lower case, digits, dashes
	Description string   // one line
	Links       []string // links it can be opened on, the default first: "udp", "direct"; empty: there is no choice
	// Open makes a target. It is called in the worker process: once for each case, or with Keep once for many. It has to be ready when
	// Open returns: ports active or about to be. Its error means that nothing can be judged (exit 3), so a driver that cannot find
	// its device says here what was looked for and what to do.
	Open func(context.Context, Options) (*Target, error)
	// Settings names what Options.Values may hold, each with a line of description. Other keys are then refused before anything is
	// opened; an empty map refuses all. nil leaves them to Open.
	Settings map[string]string
	// CheckValues, if not nil, refuses values of Options.Values that no target could be opened with, before anything is opened: a mistake
	// on the command line (exit 2), where an error of Open is one of the driver.
	CheckValues func(Options) error
	// Evidence writes the packets of a case that failed to a capture file, or is nil. Package validate/evidence has one that writes pcapng;
	// the command line fills it in.
	Evidence func(path string, packets []WirePacket) error
	// Exclusive says that one target can be open at a time, as with one adapter that one process takes for itself. Runs then have one
	// worker, and asking for more is an error.
	Exclusive bool
	// Keep lets cases share a target as long as they pass, for devices that open slowly. A case that does not pass gets its
	// successor a fresh one.
	Keep bool
}

// Options is how a target shall be opened.
type Options struct {
	Link string // one of Driver.Links
	Seed uint64 // for whatever the driver draws by chance: keys, QPNs
	// Worker counts from 0 and differs among the workers that run at the same time; Run differs among runs on one machine, as far as it can (the
	// parent's process id). Together they choose addresses that do not clash, such as 127.Run.Worker.x.
	Worker int
	Run    int
	// Impair says that a case will call Target.Impair. A driver may leave out what that takes otherwise, so that other cases run on
	// the bare link.
	Impair bool
	// Capture says that Target.Capture will be called, likewise.
	Capture bool
	Values  map[string]string // --set key=value, the driver's own
}

// Target is opened HCAs of one driver.
type Target struct {
	// HCAs under test, closed. The first is the one judged. With two or more, the first two reach each other; a single one
	// reaches itself by loopback through its first port.
	HCAs []ci.HCA
	// Close frees all of it, and ends every goroutine of the driver. May be nil.
	Close func(context.Context) error

	// Live counts living objects by kind ("qp", "mr", …), or is nil. What a case leaves behind is a failure.
	Live func() map[string]int
	// Impair makes the link between the HCAs bad from now on, and good again with the zero value; or is nil. It is between
	// the adapters, so that a case can lose packets without help of the driver under test. A target that can do only some of the kinds of
	// Impairment returns an error that wraps errors.ErrUnsupported, and changes nothing, when it is asked for others: cases that
	// need those are skipped.
	Impair func(Impairment) error
	// Capture writes what passes on the wire to a pcapng file at path until stop is called; or is nil. It is called only if
	// Options.Capture said so. What is written should be in the file at once, since a driver that panics or hangs is where it is wanted most.
	Capture func(path string) (stop func() error, err error)
	// Wire opens an end of the link that reaches the first HCA, for the certifier to play the peer at; or is nil. One is open at a time.
	Wire func() (Wire, error)
	// NoMulticast says why the link between the HCAs carries no datagrams to groups, for instance what a system's loopback lacks; or is
	// empty, if it does. Cases that wait for such a datagram are skipped with this reason; attaching and detaching is judged all the same.
	NoMulticast string
	// Lossless says that the link between the HCAs cannot lose a packet, as one in memory cannot. Traffic that is lost there
	// is the driver's doing.
	Lossless bool
	// Probe sends packets of its own over the link, without the driver, and counts those that were lost: so that traffic that a case
	// has lost can be charged to the driver. It is called when a case is over and the target still open. nil: the link may lose packets.
	Probe func(context.Context) (sent, lost int, err error)
	// SetLink takes the link of the first HCA's first port down and up again, as a cable that is pulled and plugged; or is nil. Without it,
	// a claim of CapPortActiveEvent can be tested only by subnet management.
	SetLink func(up bool) error
	// VendorCall is a vendor command whose answer is known, to test a claim of CapVendorCall; or is nil.
	VendorCall *VendorCommand
	// Version of driver or firmware, for reports.
	Version string
}

// VendorCommand is a command of CA.VendorCall with its answer. It must need no objects and change nothing.
type VendorCommand struct {
	Command uint32
	In      []byte // VendorOp.Data at the call; Want may be longer
	Want    []byte // VendorOp.Data[:N] behind it; not empty, and not In
}

// Impairment of a link, per packet and direction. Probabilities are 0 to 1 and independent.
type Impairment struct {
	Seed      uint64
	Drop      float64
	Duplicate float64
	Reorder   float64       // held back behind a later packet
	Corrupt   float64       // one bit flipped behind the link header
	Delay     time.Duration // each packet is held for a time up to this
	Cut       bool          // nothing passes
}

// Kinds names the kinds of impairment that i asks for.
func (i Impairment) Kinds() []string {
	var out []string
	for _, k := range []struct {
		name  string
		asked bool
	}{{"drop", i.Drop > 0}, {"duplicate", i.Duplicate > 0}, {"reorder", i.Reorder > 0}, {"corrupt", i.Corrupt > 0}, {"delay", i.Delay > 0}, {"cut", i.Cut}} {
		if k.asked {
			out = append(out, k.name)
		}
	}
	return out
}

var driverName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func (d Driver) check() error {
	switch {
	case !driverName.MatchString(d.Name):
		return fmt.Errorf("driver %q: a name is made of a-z, 0-9 and dashes", d.Name)
	case d.Open == nil:
		return fmt.Errorf("driver %s: Open is nil", d.Name)
	}
	return nil
}

// LinkOr gives the link to open: want, or the default if want is empty.
func (d Driver) LinkOr(want string) (string, error) {
	switch {
	case want == "" && len(d.Links) > 0:
		return d.Links[0], nil
	case want == "" || slices.Contains(d.Links, want):
		return want, nil
	case len(d.Links) == 0:
		return "", fmt.Errorf("driver %s has one link only; leave the link out", d.Name)
	}
	return "", fmt.Errorf("driver %s has no link %q; it has %v", d.Name, want, d.Links)
}

// CheckSettings refuses settings that the driver does not have, and values of them that it knows to be wrong.
func (d Driver) CheckSettings(o Options) error {
	if err := d.checkNames(o.Values); err != nil || d.CheckValues == nil {
		return err
	}
	var err error
	if o.Link, err = d.LinkOr(o.Link); err != nil {
		return err
	}
	if err := d.CheckValues(o); err != nil {
		return fmt.Errorf("driver %s: %w", d.Name, err)
	}
	return nil
}

func (d Driver) checkNames(values map[string]string) error {
	if d.Settings == nil {
		return nil
	}
	known := slices.Sorted(maps.Keys(d.Settings))
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if _, ok := d.Settings[k]; ok {
			continue
		}
		if len(known) == 0 {
			return fmt.Errorf("driver %s has no setting %q; it has none at all", d.Name, k)
		}
		return fmt.Errorf("driver %s has no setting %q; there are %s", d.Name, k, strings.Join(known, ", "))
	}
	return nil
}

// open is Driver.Open with its results checked, so that nothing behind it has to.
func (d Driver) open(ctx context.Context, o Options) (*Target, error) {
	t, err := d.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("driver %s: open: %w", d.Name, err)
	}
	if t == nil || len(t.HCAs) == 0 {
		return nil, fmt.Errorf("driver %s: Open returned no HCA", d.Name)
	}
	for i, h := range t.HCAs {
		if h == nil {
			return nil, errors.Join(fmt.Errorf("driver %s: HCA %d is nil", d.Name, i), t.close(ctx))
		}
	}
	return t, nil
}

func (t *Target) close(ctx context.Context) error {
	if t.Close == nil {
		return nil
	}
	return t.Close(ctx)
}

// Drivers is a set of drivers by name.
type Drivers struct{ list []Driver }

// NewDrivers collects drivers; a bad or doubled one is an error.
func NewDrivers(list ...Driver) (*Drivers, error) {
	for i, d := range list {
		if err := d.check(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list[:i], func(o Driver) bool { return o.Name == d.Name }) {
			return nil, fmt.Errorf("driver %s is there twice", d.Name)
		}
	}
	return &Drivers{slices.Clone(list)}, nil
}

// All gives the drivers in the order they were linked in; the first is the default.
func (d *Drivers) All() []Driver { return slices.Clone(d.list) }

// Get finds a driver; "" is the first.
func (d *Drivers) Get(name string) (Driver, error) {
	if len(d.list) == 0 {
		return Driver{}, errors.New("no driver is linked into this program")
	}
	if name == "" {
		return d.list[0], nil
	}
	var names []string
	for _, x := range d.list {
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	return Driver{}, fmt.Errorf("no driver %q%s", name, didYouMean(name, names))
}
