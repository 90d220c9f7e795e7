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

// A Driver opens HCAs of one kind for the certifier.
type Driver struct {
	Name        string   // name on the command line: lower case letters, digits and dashes
	Description string   // one line
	Links       []string // links of a target, the default first, such as "udp"; empty if there is no choice
	// Open opens a target. It is called in the worker process, once for each case, or once for many with Keep. The
	// target must be ready when Open returns: its ports are active or about to be. An error ends the run (exit status
	// 3), so the text of a driver that cannot find its device should name what it looked for and what to do.
	Open func(context.Context, Options) (*Target, error)
	// Settings has the keys that Options.Values may contain, each with a line of description. Other keys are rejected
	// before a target is opened; an empty map rejects all. If Settings is nil, Open checks the keys.
	Settings map[string]string
	// CheckValues, if not nil, is called before a target is opened and rejects values of Options.Values with which none
	// could be opened. Its error is a mistake on the command line (exit status 2), whereas an error of Open is one of
	// the driver.
	CheckValues func(Options) error
	// Evidence writes the packets of a failed case to a capture file. It may be nil. Package validate/evidence has one
	// for pcapng files, which the command line uses as the default.
	Evidence func(path string, packets []WirePacket) error
	// Waivers are failures that follow from what the driver stands on, such as an interface without a call for a verb,
	// with the reasons. A run adds them to those of the vendor's expectation file.
	Waivers []Waiver
	// Exclusive is true if only one target can be open at a time, such as an adapter that one process owns. A run then
	// has one worker, and a plan with more is an error.
	Exclusive bool
	// Keep lets cases share a target while they pass. It is for devices that open slowly. After a case that does not
	// pass, the next one has a new target.
	Keep bool
}

// Options are the parameters of Driver.Open.
type Options struct {
	Link string // one of Driver.Links
	Seed uint64 // for the driver's random choices, such as keys and QPNs
	// Worker counts from 0 and differs among workers that run at the same time. Run differs among runs on one machine,
	// as far as possible (it is the parent's process id). A driver can derive addresses from them that do not clash,
	// such as loopback addresses.
	Worker int
	Run    int
	// Impair is true if cases will call Target.Impair. Otherwise the driver may leave out what Impair needs, so that
	// cases run on the bare link.
	Impair bool
	// Capture is true if Target.Capture will be called. Otherwise the driver may leave out what Capture needs.
	Capture bool
	Values  map[string]string // --set key=value, the driver's own
}

// A Target is a set of HCAs of one driver, opened for cases.
type Target struct {
	// HCAs are the adapters under test, without an open CA. The first is the one tested. The first two reach each
	// other. A single one reaches itself by loopback through its first port.
	HCAs []ci.HCA
	// Close frees the target and ends every goroutine of the driver. It may be nil.
	Close func(context.Context) error

	// Live returns the number of existing objects by kind ("qp", "mr", …). Objects that a case leaves behind are a
	// failure. It may be nil.
	Live func() map[string]int
	// Counters returns counters by name for each of HCAs. What they count from the start of a case is reported with its
	// failures. It may be nil.
	Counters func() []map[string]uint64
	// Impair impairs the link between the HCAs from now on; the zero value restores it. The impairment is applied
	// between the adapters, not by the driver under test. A target that does not support a kind of impairment returns
	// an error that wraps errors.ErrUnsupported and changes nothing; cases that need that kind are skipped. It may be
	// nil.
	Impair func(Impairment) error
	// Capture writes the packets on the link to a pcapng file at path until stop is called. It is called only if
	// Options.Capture is true. Packets should be in the file at once, since they matter most when a driver panics or
	// hangs. It may be nil.
	Capture func(path string) (stop func() error, err error)
	// Wire opens an end of the link that reaches the first HCA, at which the certifier acts as the peer. One is open at
	// a time. It may be nil.
	Wire func() (Wire, error)
	// NoMulticast is the reason why the link between the HCAs carries no datagrams to multicast groups, or "" if it
	// does. Cases that wait for such a datagram are skipped with this reason. Attaching and detaching are tested in any
	// case.
	NoMulticast string
	// NoDaemon is the reason why cases cannot put a daemon of their own on the HCAs, or "" if they can. HCAs that are
	// behind a daemon already have one: memory of another process cannot be registered through two of them.
	NoDaemon string
	// Lossless is true if the link between the HCAs cannot lose a packet, such as one in memory. Traffic that is lost
	// on it is charged to the driver.
	Lossless bool
	// Probe sends packets of its own over the link, without the driver, and returns how many were sent and lost. If
	// none is lost, traffic that a case has lost is charged to the driver. It is called after a case, while the target
	// is still open. If it is nil, the link is assumed to lose packets.
	Probe func(context.Context) (sent, lost int, err error)
	// SetLink takes the link of the first HCA's first port down or up, like a cable that is unplugged and plugged in.
	// If it is nil, a claim of CapPortActiveEvent can be tested only through subnet management.
	SetLink func(up bool) error
	// Services is true if the HCAs have MAD services and connection managers of their own, so that cases for these need
	// no special QPs. Such an HCA implements cmsuite.Host.
	Services bool
	// Withheld are capabilities of the driver that a layer in front of it does not offer, such as verbs that exist only
	// in a daemon. Profiles do not demand them of the layer.
	Withheld ci.Caps
	// Exited reports whether the driver's process has ended, if the driver runs in a process of its own, with its exit
	// state and what it printed. The end of the process is charged to the running case. It is nil if the driver runs in
	// the worker process.
	Exited func() (state, printed string, ok bool)
	// Load loads the driver on a device of its own, apart from HCAs, as an operating system does when it finds one. The
	// driver registers the adapter at r before Load returns. If r rejects it, Load returns that error, and nothing
	// remains. unload ends the driver; with gone, after the device has been pulled out. In both cases the driver
	// deregisters the adapter before unload returns. One device is loaded at a time. Load is nil if a program registers
	// the adapters, and not the driver.
	Load func(ctx context.Context, r ci.Registrar) (unload func(gone bool) error, err error)
	// VendorCall is a vendor command with a known result, to test a claim of CapVendorCall. It may be nil.
	VendorCall *VendorCommand
	// Unreachable is an address of the link at which nothing receives unless the case opens an end of the link (Wire),
	// and about which the network sends reports (ci.UndeliveredReporter). Zero: there is none.
	Unreachable ci.GID
	// UserLibrary is the driver's user library, to certify it in user mode. It may be nil.
	UserLibrary *ci.UserLibrary
	// Version is the version of the driver or firmware, for reports.
	Version string
}

// A VendorCommand is a command of CA.VendorCall with its result. It must need no objects and change nothing.
type VendorCommand struct {
	Command uint32
	In      []byte // VendorOp.Data of the call; may be shorter than Want
	Want    []byte // VendorOp.Data[:N] after the call; not empty, and different from In
}

// Impairment describes the impairment of a link, per packet and direction. Probabilities are 0 to 1 and independent.
type Impairment struct {
	Seed      uint64
	Drop      float64
	Duplicate float64
	Reorder   float64       // the packet is held until a later one has passed
	Corrupt   float64       // one bit after the link header is flipped
	Delay     time.Duration // each packet is held for a time up to this
	Cut       bool          // all packets are dropped
}

// Kinds returns the names of the kinds of impairment in i.
func (i Impairment) Kinds() []string {
	var out []string
	for _, k := range []struct {
		name  string
		isSet bool
	}{
		{"drop", i.Drop > 0}, {"duplicate", i.Duplicate > 0}, {"reorder", i.Reorder > 0},
		{"corrupt", i.Corrupt > 0}, {"delay", i.Delay > 0}, {"cut", i.Cut},
	} {
		if k.isSet {
			out = append(out, k.name)
		}
	}
	return out
}

var driverName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func (d Driver) check() error {
	switch {
	case !driverName.MatchString(d.Name):
		return fmt.Errorf("driver %q: the name contains other characters than a-z, 0-9 and dashes", d.Name)
	case d.Open == nil:
		return fmt.Errorf("driver %s: Open is nil", d.Name)
	}
	return nil
}

// LinkOr returns want, or the default link if want is empty. It returns an error if the driver has no such link.
func (d Driver) LinkOr(want string) (string, error) {
	switch {
	case want == "" && len(d.Links) > 0:
		return d.Links[0], nil
	case want == "" || slices.Contains(d.Links, want):
		return want, nil
	case len(d.Links) == 0:
		return "", fmt.Errorf("driver %s has only one link (leave the link out)", d.Name)
	}
	return "", fmt.Errorf("driver %s has no link %q; it has %v", d.Name, want, d.Links)
}

// CheckSettings returns an error if Options.Values has keys that the driver does not have, or values that CheckValues
// rejects.
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
			return fmt.Errorf("driver %s has no settings, and %q was given", d.Name, k)
		}
		return fmt.Errorf("driver %s has no setting %q; valid settings are %s", d.Name, k, strings.Join(known, ", "))
	}
	return nil
}

// open calls Driver.Open and checks its results.
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

// Drivers is a list of drivers with different names.
type Drivers struct{ list []Driver }

// NewDrivers returns a list of drivers. It returns an error if one is invalid or two have the same name.
func NewDrivers(list ...Driver) (*Drivers, error) {
	for i, d := range list {
		if err := d.check(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list[:i], func(o Driver) bool { return o.Name == d.Name }) {
			return nil, fmt.Errorf("duplicate driver %s", d.Name)
		}
	}
	return &Drivers{slices.Clone(list)}, nil
}

// All returns the drivers in the order of NewDrivers. The first is the default.
func (d *Drivers) All() []Driver { return slices.Clone(d.list) }

// Get returns the driver with the name, or the first if name is "".
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
