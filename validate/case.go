package validate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/validate/req"
)

// DefaultTimeout is the time limit of a case that sets none.
const DefaultTimeout = 10 * time.Second

// A Case proves one requirement. It is a plain value, shared by all runs; Run must keep nothing between calls.
type Case struct {
	ID           string        // stable, dotted, lower case: "rc.send.sizes"
	Title        string        // what is done, in a few words
	Requirements []string      // ids; the case proves the first and touches the others
	Checks       []string      // ids among the others that have a check of their own: failures can be charged to them
	Feature      Feature       // row of the matrix; profiles are sets of features
	Needs        Needs         // what the driver must claim for the case to run
	Timeout      time.Duration // 0: DefaultTimeout
	// Exhaustive, if not 0, is the time limit in a profile that is exhaustive, where the case does more.
	Exhaustive time.Duration
	// Proves are capabilities whose claim the case tests: it uses what they name and checks that it works. A claim that
	// no case proves withholds the certificate (Catalog.NotTested).
	Proves ci.Caps
	// TestsSetup is true if the set-up of the case is part of what it tests. Failures of the set-up then count like
	// others.
	TestsSetup bool
	// Final is true if what fails need not fail again: it depends on how goroutines run, or the case has repeated it. A
	// failure that neither the link nor the machine explains then fails the case without a second attempt.
	Final  bool
	Spoils bool // leaves the target unfit for other cases, such as with a port down: it is not kept (Driver.Keep)
	Run    func(*T)
}

// NewCase returns a case that proves the first requirement and touches the others. It is for suites that name
// requirements by id; Area.Case takes Go values.
func NewCase(id, title string, feature Feature, run func(*T), requirements ...string) Case {
	return Case{ID: id, Title: title, Feature: feature, Requirements: requirements, Run: run}
}

// Claiming returns the case with a need of capabilities added.
func (c Case) Claiming(caps ci.Caps) Case {
	c.Needs.Caps |= caps
	return c
}

// Proven returns the requirement that the case proves. A failure is charged to it by default.
func (c *Case) Proven() string {
	if len(c.Requirements) == 0 {
		return ""
	}
	return c.Requirements[0]
}

// Checking returns the case with requirements that have a check of their own. They are added to Requirements, too.
func (c Case) Checking(requirements ...string) Case {
	c.Checks = append(slices.Clone(c.Checks), requirements...)
	for _, id := range requirements {
		if !slices.Contains(c.Requirements, id) {
			c.Requirements = append(slices.Clone(c.Requirements), id)
		}
	}
	return c
}

// CanCharge reports whether the case can charge a failure to the requirement: it proves it or has a check of it.
func (c *Case) CanCharge(requirement string) bool {
	return c.Proven() == requirement || slices.Contains(c.Checks, requirement)
}

func (c *Case) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return DefaultTimeout
}

// Needs describes what a case requires of the driver and the target. The zero value needs one HCA with one port, in any
// state.
type Needs struct {
	Caps    ci.Caps      // all of them
	AnyCaps ci.Caps      // at least one of them, if not zero
	Lacks   ci.Caps      // none of them: the case tests the result of what is not claimed
	Atomics ci.Atomicity // at least
	Links   []ci.Link    // the first port has one of these; empty: any
	Ports   int          // at least, 0 as 1
	HCAs    int          // at least, 0 as 1; 2: two adapters, not one in loopback
	Impair  bool         // Target.Impair is set
	// MayImpair opens the target as for Impair, and the case runs without Target.Impair, too (T.Impairing).
	MayImpair bool
	Live      bool // Target.Live is set
	Wire      bool // Target.Wire is set
	// Services are MAD services and connection management, over the driver's special QPs or by Target.Services.
	Services bool
	Attr     func(*ci.CAAttr) string // further limits: returns the reason for skipping, or ""
}

// unmet returns the reason why a target cannot run the case, or "".
func (n Needs) unmet(id *Identity) string {
	a := id.attr
	switch {
	case !a.Caps.Has(n.Caps):
		return "not claimed: " + CapNames(n.Caps&^a.Caps)
	case n.AnyCaps != 0 && a.Caps&n.AnyCaps == 0:
		return "none claimed of: " + CapNames(n.AnyCaps)
	case a.Caps&n.Lacks != 0:
		return "claimed: " + CapNames(a.Caps&n.Lacks)
	case a.Atomicity < n.Atomics:
		return fmt.Sprintf("atomicity %d claimed, %d needed", a.Atomicity, n.Atomics)
	case n.Services && !a.Caps.Has(ci.CapSpecialQP) && !id.Services:
		return "not claimed: " + CapNames(ci.CapSpecialQP) + ", and the target has no services in place of them"
	case len(a.Ports) < max(n.Ports, 1):
		return fmt.Sprintf("%d ports, %d needed", len(a.Ports), max(n.Ports, 1))
	case id.HCAs < max(n.HCAs, 1):
		return fmt.Sprintf("%d adapters, %d needed", id.HCAs, max(n.HCAs, 1))
	case n.Impair && !id.Impair:
		return "the target cannot impair its link"
	case n.Live && !id.Live:
		return "the target does not count its objects"
	case n.Wire && !id.Wire:
		return "needs an end of the link for the certifier, and the target has none (Target.Wire)"
	}
	if len(n.Links) > 0 {
		ok := false
		for _, l := range n.Links {
			ok = ok || a.Ports[0].Link == l
		}
		if !ok {
			return "needs another link layer than " + LinkName(a.Ports[0].Link)
		}
	}
	if n.Attr != nil {
		return n.Attr(a)
	}
	return ""
}

// A Suite is a set of cases with the requirements that it declares. NewSuite joins areas to the suite of a package.
type Suite struct {
	Name         string
	Requirements []req.Requirement
	Cases        []Case
	NotTested    []NotTested
	Moved        []Moved
}

// Merge joins suites in order. NewCatalog finds duplicates.
func Merge(name string, areas ...Suite) Suite {
	out := Suite{Name: name}
	for _, a := range areas {
		out.Requirements = append(out.Requirements, a.Requirements...)
		out.Cases = append(out.Cases, a.Cases...)
		out.NotTested = append(out.NotTested, a.NotTested...)
		out.Moved = append(out.Moved, a.Moved...)
	}
	return out
}

// LinkName returns the name of a link layer.
func LinkName(l ci.Link) string {
	switch l {
	case ci.LinkInfiniBand:
		return "InfiniBand"
	case ci.LinkEthernet:
		return "Ethernet"
	case ci.LinkIWARP:
		return "iWARP"
	}
	return fmt.Sprintf("link %d", l)
}

// CapNames returns the names of the capabilities in c, separated by commas. They are those of package ci without the
// prefix.
func CapNames(c ci.Caps) string { return strings.Join(CapList(c), ", ") }

// CapList returns the names of the set bits, lowest first.
func CapList(c ci.Caps) []string {
	var out []string
	for i := range 64 {
		if c&(1<<i) == 0 {
			continue
		}
		if i < len(capNames) {
			out = append(out, capNames[i])
		} else {
			out = append(out, fmt.Sprintf(unnamedCap, i))
		}
	}
	return out
}

// unnamedCap is the name of a capability bit that package ci does not define.
const unnamedCap = "bit %d"

// capNames are the names of the capabilities in the order of their bits. A test compares them with the constants.
var capNames = [...]string{
	"UC", "UD", "RD", "AV", "SpecialQP", "RawIPv6", "RawEther", "Multicast", "RawMulticast", "SRQ", "MW1", "MW2", "FMR",
	"FastReg", "PhysicalMR", "SharedMR", "ModifyMR", "ZeroBased", "SendInvalidate", "LSO", "IPChecksum", "ResizeCQ",
	"Moderation", "Peek", "NotifyAfter", "ModifyWRDepth", "ModifySRQDepth", "APM", "ChangePrimaryPort",
	"CurrentQPState", "AVPortCheck", "User", "EventHandlers", "VendorCall", "LocalMAD", "HardwareSMA", "SLForIP",
	"ShutdownPort", "InitType", "PortActiveEvent", "SystemGUID", "PKeyCounter", "QKeyCounter",
	"AtomicWrite", "Flush", "FlushPersistent",
}
