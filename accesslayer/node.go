package accesslayer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ciddk/ci"
)

// node is the part that all objects of the tree have in common: parent and children, references, and the three steps of
// a destroy.
//
// A node has one reference of its own, which step 1 drops. It has one for the create, so that a destroy from a callback
// cannot free it before the create has returned. It has one for each child, for each object that uses it (a QP uses its
// CQs), for each event that is queued or being delivered, and for each verb in progress that goes through the access
// layer.
//
// Step 1 runs on the caller's goroutine. It sets the state to destroying, also of users and children, newest first and
// windows before everything else, and drops the node's own reference. Step 2 queues the node for the reaper when the
// last reference is dropped. Step 3 runs on the reaper: it calls the driver's destroy and the client's callback, and
// drops the references to the parent and to the objects that the node used.
//
// al.mu guards all fields from state on. No function of a driver or a client is called with it held.
type node struct {
	al          *AL
	kind        kind
	label       string // of a client, the name
	parent      *node
	obj         any          // the typed object
	exec        *serial      // the reaper
	cleanup     func() error // the driver's destroy; nil: none
	onCreated   func()       // at the end of the create, with al.mu held
	onDestroy   func()       // in step 1, with al.mu held
	onDestroyed func()       // in step 3, with al.mu held
	stays       bool         // kept when cleanup fails for good: the adapter
	undo        bool         // set by a create that fails and leaves something for cleanup
	strict      bool         // Destroy follows package ci; inherited from ClientConfig.Strict
	allowed     func() error // may refuse the create, with al.mu held; nil: no condition
	events      serial       // runs the callbacks of this object, one at a time

	state       state
	refs        int
	seq         uint64
	first, last *node // oldest first
	prev, next  *node // siblings
	users       map[*node]struct{}
	uses        []*node
	early       []func() // callbacks before the end of the create
	onDone      func(error)
	done        chan struct{} // created by the first waiter; closed when the object is destroyed, or stays with err
	err         error
	tries       int
	try         bool // a synchronous destroy of a kind that staysWhenBusy
	stuck       bool // cleanup failed for good, and the object is kept
}

type state uint8

const (
	creating state = iota
	alive
	destroying
	destroyed
)

// attach makes n a child of parent and a user of uses, while its create is in progress.
func (n *node) attach(parent *node, verb string, uses ...*node) error {
	al := parent.al
	n.al, n.parent = al, parent
	if n.exec == nil {
		n.exec = parent.exec
	}
	n.strict = n.strict || parent.strict
	al.mu.Lock()
	defer al.mu.Unlock()
	if parent.state != alive {
		return parent.parentClosed(verb)
	}
	if n.allowed != nil {
		if err := n.allowed(); err != nil {
			return err
		}
	}
	for _, u := range uses {
		if u.state != alive {
			return u.kind.closed(verb)
		}
	}
	al.seq++
	n.state, n.refs = creating, 2
	n.seq, n.uses = al.seq, uses
	parent.refs++
	n.link(parent)
	for _, u := range uses {
		u.refs++
		if u.users == nil {
			u.users = map[*node]struct{}{}
		}
		u.users[n] = struct{}{}
	}
	return nil
}

// attached ends the create, with the driver's error or with nil. It returns err, or the error of a parent that was
// destroyed meanwhile.
func (n *node) attached(verb string, err error) error {
	al := n.al
	var ready []*node
	al.mu.Lock()
	early := n.early
	n.early = nil
	switch {
	case err != nil:
		if !n.undo {
			n.cleanup = nil
		}
		if n.state == creating {
			n.state = destroying
			n.refs--
		}
		n.refs -= len(early)
	case n.state == creating:
		n.state = alive
		if n.onCreated != nil {
			n.onCreated()
		}
		for _, f := range early {
			n.events.post(f)
		}
	default:
		n.refs -= len(early)
		err = n.parent.parentClosed(verb)
	}
	n.drop(&ready)
	al.mu.Unlock()
	al.schedule(ready)
	return err
}

// make runs a whole create. create calls the driver, stores the result in the typed object, and returns the function
// that destroys it.
func (n *node) make(parent *node, verb string, create func() (destroy func() error, err error), uses ...*node) error {
	if err := n.attach(parent, verb, uses...); err != nil {
		return err
	}
	destroy, err := create()
	n.cleanup = destroy // attached clears it if there is nothing to destroy
	return n.attached(verb, err)
}

// link and unlink maintain the list of children. al.mu is held.
func (n *node) link(parent *node) {
	n.parent = parent
	n.prev, n.next = parent.last, nil
	if parent.last != nil {
		parent.last.next = n
	} else {
		parent.first = n
	}
	parent.last = n
}

func (n *node) unlink() {
	p := n.parent
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		p.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		p.last = n.prev
	}
	n.prev, n.next = nil, nil
}

// enter takes a reference for a verb in progress; leave drops it.
func (n *node) enter(verb string) error {
	n.al.mu.Lock()
	defer n.al.mu.Unlock()
	if n.state != alive {
		return n.kind.closed(verb)
	}
	n.refs++
	return nil
}

func (n *node) leave() {
	var ready []*node
	n.al.mu.Lock()
	n.drop(&ready)
	n.al.mu.Unlock()
	n.al.schedule(ready)
}

// drop drops one reference, and appends n to ready if it was the last. al.mu is held.
func (n *node) drop(ready *[]*node) {
	n.refs--
	if n.refs == 0 {
		*ready = append(*ready, n)
	}
}

// callback calls f on the goroutine of n's callbacks. After the destruction has begun, f is dropped. Callbacks that
// were queued before are still delivered, and the object is destroyed after them.
func (n *node) callback(f func()) {
	n.al.mu.Lock()
	defer n.al.mu.Unlock()
	if n.state >= destroying {
		return
	}
	n.refs++
	run := func() { defer n.leave(); f() }
	if n.state == creating {
		n.early = append(n.early, run)
		return
	}
	n.events.post(run)
}

// begin is step 1. al.mu is held.
func (n *node) begin(ready *[]*node) {
	if n.state >= destroying {
		return
	}
	n.state = destroying
	if n.onDestroy != nil {
		n.onDestroy()
	}
	n.beginAll(newestFirst(n.users), ready)
	var windows, others, mappings []*node
	for k := n.last; k != nil; k = k.prev {
		switch k.kind {
		case kindMW:
			windows = append(windows, k)
		case kindDMA: // regions of older PDs may use them
			mappings = append(mappings, k)
		default:
			others = append(others, k)
		}
	}
	if !slices.IsSortedFunc(others, younger) { // a region was moved here from another PD
		slices.SortFunc(others, younger)
	}
	n.beginAll(slices.Concat(windows, others, mappings), ready)
	n.drop(ready)
}

// beginAll begins the destruction of several nodes, each of which waits for the one before it and everything below it.
// An older object waits for a younger one or for a window; a window waits for windows only, and only mappings wait for
// mappings. Therefore no cycle exists. Opens of different clients do not wait for each other.
func (n *node) beginAll(ns []*node, ready *[]*node) {
	ns = slices.DeleteFunc(ns, func(k *node) bool { return k.state >= destroying })
	if n.kind != kindAL && n.kind != kindAdapter {
		for i := 1; i < len(ns); i++ {
			before, after := ns[i-1], ns[i]
			after.refs++
			before.uses = append(before.uses, after)
		}
	}
	for _, k := range ns {
		k.begin(ready)
	}
}

func younger(a, b *node) int { return cmp.Compare(b.seq, a.seq) }

func newestFirst(set map[*node]struct{}) []*node {
	ns := make([]*node, 0, len(set))
	for n := range set {
		ns = append(ns, n)
	}
	slices.SortFunc(ns, younger)
	return ns
}

// destroyAsync begins the destruction. onDone, if not nil, is called once, after all other callbacks of the object.
func (n *node) destroyAsync(onDone func(error)) error {
	_, err := n.start(true, onDone)
	return err
}

// destroy waits until the object is destroyed. If the destruction had begun before, it returns the error of a destroyed
// object, after waiting. A second destroy of an AV does not wait: ci.AV.Destroy is allowed in callbacks, and the
// destruction of the AV may wait for that callback.
func (n *node) destroy() error {
	done, err := n.start(false, nil)
	if err == nil {
		return n.await(verbDestroy(n), done)
	}
	if !errors.Is(err, ErrClosed) || n.kind == kindAV {
		return err
	}
	result := n.awaitBegun()
	n.al.mu.Lock()
	defer n.al.mu.Unlock()
	switch {
	case n.state != destroyed: // Timeout, or the driver reported it busy and it stays usable
		return result
	case result != nil:
		return &ci.Error{Verb: verbDestroy(n), Status: kinds[n.kind].invalid, Detail: "given up: " +
			result.Error(), Err: fmt.Errorf("%w (%w)", ErrClosed, ErrGivenUp)}
	}
	return err
}

// close is destroy for objects whose second Close returns the result of the first.
func (n *node) close() error {
	done, err := n.start(false, nil)
	if err != nil { // it has begun: nothing holds these objects
		return n.awaitBegun()
	}
	return n.await(verbDestroy(n), done)
}

// awaitBegun waits for the end of a destruction that has begun, and returns its result.
func (n *node) awaitBegun() error {
	n.al.mu.Lock()
	if n.state == destroyed {
		defer n.al.mu.Unlock()
		return n.err
	}
	done := n.waiter()
	n.al.mu.Unlock()
	return n.await(verbDestroy(n), done)
}

func (n *node) start(async bool, onDone func(error)) (done chan struct{}, err error) {
	verb := verbDestroy(n)
	var ready []*node
	n.al.mu.Lock()
	switch {
	case n.state >= destroying:
		n.al.mu.Unlock()
		return nil, n.kind.closed(verb)
	case n.isHeld(async):
		err = &ci.Error{Verb: verb, Status: ci.ResourceBusy, Detail: "in use by " + n.holders() +
			" (destroy them first)"}
		n.al.mu.Unlock()
		return nil, err
	}
	n.onDone = onDone
	n.try = !async && n.kind.staysWhenBusy()
	if !async {
		done = n.waiter()
	}
	n.begin(&ready)
	n.al.mu.Unlock()
	n.al.schedule(ready)
	return done, nil
}

// isHeld reports whether other objects prevent the destruction. al.mu is held.
func (n *node) isHeld(async bool) bool {
	if n.strict && !async && n.kind != kindClient {
		return n.first != nil || len(n.users) > 0
	}
	return n.kind.refusesWhileUsed() && len(n.users) > 0
}

// parentClosed returns the error of a create below n, whose destruction has begun.
func (n *node) parentClosed(verb string) error {
	if n.strict && n.kind != kindClient {
		return n.kind.closed(verb)
	}
	return n.kind.parentClosed(verb)
}

// waiter returns the channel to wait on. al.mu is held.
func (n *node) waiter() chan struct{} {
	if n.done == nil {
		n.done = make(chan struct{})
	}
	return n.done
}

// answer closes the channel after n.err is set. al.mu is held.
func (n *node) answer() {
	if n.done != nil {
		close(n.done)
		n.done = nil
	}
}

func verbDestroy(n *node) string { return n.kind.String() + ".Destroy" }

func (n *node) await(verb string, done chan struct{}) error {
	late := make(chan struct{})
	timer := n.al.cfg.Clock.AfterFunc(n.al.cfg.DrainTimeout, func() { close(late) })
	defer timer.Stop()
	select {
	case <-done:
		n.al.mu.Lock()
		defer n.al.mu.Unlock()
		return n.err
	case <-late:
		n.al.mu.Lock()
		defer n.al.mu.Unlock()
		return &ci.Error{Verb: verb, Status: ci.Timeout, Detail: "still waiting for " + n.holders() +
			"; the destruction continues"}
	}
}

// holders lists the kinds of objects that n waits for. al.mu is held.
func (n *node) holders() string {
	count := map[kind]int{}
	var walk func(*node)
	seen := map[*node]bool{n: true}
	walk = func(m *node) {
		if seen[m] {
			return
		}
		seen[m] = true
		count[m.kind]++
		for u := range m.users {
			walk(u)
		}
		for k := m.first; k != nil; k = k.next {
			walk(k)
		}
	}
	for u := range n.users {
		walk(u)
	}
	for k := n.first; k != nil; k = k.next {
		walk(k)
	}
	var parts []string
	for k, c := range count {
		parts = append(parts, fmt.Sprintf("%d %v", c, k))
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return "its own callbacks, verbs in progress or the driver"
	}
	return strings.Join(parts, ", ")
}

// schedule is step 2.
func (al *AL) schedule(ready []*node) {
	for _, n := range ready {
		switch {
		case n.cleanup == nil && n.onDone == nil:
			n.finish(nil)
		case n.kind == kindAV: // ci.AV.Destroy is allowed in a callback, so it must not wait for another goroutine
			n.reap()
		default:
			n.exec.post(n.reap)
		}
	}
}

// reap is step 3.
func (n *node) reap() {
	var err error
	if n.cleanup != nil {
		err = n.cleanup()
	}
	if err != nil && n.refused(err) {
		return
	}
	n.finish(err)
}

// refused handles a destroy that failed. The object stays usable, or the destroy is repeated; if it reports false, the
// object is given up.
func (n *node) refused(err error) bool {
	al := n.al
	log := al.cfg.Logger.With("object", n.kind.String(), "error", err)
	al.mu.Lock()
	if n.try && errors.Is(err, ci.ResourceBusy) && n.parent.state == alive {
		n.state, n.refs = alive, 1
		n.err, n.try = err, false
		n.answer()
		al.mu.Unlock()
		return true
	}
	n.tries++
	tries := n.tries
	again := tries <= al.cfg.DestroyRetries && !errors.Is(err, kinds[n.kind].invalid)
	al.mu.Unlock()
	if again {
		log.Warn("accesslayer: the driver refused a destroy; retrying", "try", tries)
		al.cfg.Clock.AfterFunc(al.cfg.DestroyBackoff<<min(tries-1, 16), func() { n.exec.post(n.reap) })
		return true
	}
	if n.stays { // from OnDestroyError on, the program may ask for another try, whose answer is another one
		al.mu.Lock()
		n.stuck, n.err = true, err
		done := n.done
		n.done = nil
		al.mu.Unlock()
		if done != nil {
			defer close(done)
		}
	}
	log.Error("accesslayer: the driver refused a destroy; giving up", "tries", tries)
	if al.cfg.OnDestroyError != nil {
		al.cfg.OnDestroyError(fmt.Errorf("accesslayer: %v not destroyed after %d tries: %w", n.kind, tries, err))
	}
	return n.stays
}

// finish ends step 3.
func (n *node) finish(err error) {
	if n.onDone != nil {
		n.onDone(err)
	}
	var ready []*node
	n.al.mu.Lock()
	n.state, n.err = destroyed, err
	if n.onDestroyed != nil {
		n.onDestroyed()
	}
	for _, u := range n.uses {
		delete(u.users, n)
		u.drop(&ready)
	}
	n.uses = nil
	if n.parent != nil {
		n.unlink()
		n.parent.drop(&ready)
	}
	n.answer()
	n.al.mu.Unlock()
	n.al.schedule(ready)
}

// object is embedded in every typed object.
type object struct{ n *node }

func (o *object) node() *node { return o.n }

// DestroyAsync begins the destruction of the object and of everything below it, and returns at once. It may be called
// from any callback. The driver's destroy runs later, on another goroutine, when nothing uses the object. onDone, if
// not nil, is called after it, as the last callback of the object. Its argument is the driver's error if the object was
// given up.
//
// Status: the object's Invalid…Handle with ErrClosed if the destruction has begun before, ResourceBusy for an SRQ, MR
// or RDD in use; then onDone is not called. [SAS-2.1-28, -29, -31]
func (o *object) DestroyAsync(onDone func(error)) error { return o.n.destroyAsync(onDone) }

// Destroy destroys the object and everything below it, and waits until they no longer exist. It waits at most
// Config.DrainTimeout; then it returns ci.Timeout, the destruction continues, and Destroy may be called again. Destroy
// must not be called from a callback of the object, of an object below it, or of one that uses it.
//
// If the destruction has begun before, by any call, Destroy waits for its end and returns the object's Invalid…Handle
// status with ErrClosed. So a deferred Destroy is harmless, and when Destroy has returned anything but ci.Timeout or
// ci.ResourceBusy, the object no longer exists. An AV is the exception: its second Destroy does not wait.
//
// Status: ResourceBusy, for an SRQ, MR or RDD in use and for an MR, MW, FMR, DMA or AV that the driver reports busy:
// the object stays usable; Timeout; the driver's error, if the driver refuses to destroy the object. [SAS-2.1-28, -30]
func (o *object) Destroy() error { return o.n.destroy() }

// holder is any typed object.
type holder interface{ node() *node }

// own returns the T of this access layer that o is or wraps. o may be wrapped by another access layer, too.
func own[T holder](al *AL, o any) (t T, ok bool) {
	for !ci.IsNil(o) {
		if t, ok = o.(T); ok && t.node().al == al {
			return t, true
		}
		u, is := o.(ci.Unwrapper)
		if !is {
			break
		}
		o = u.Unwrap()
	}
	var none T
	return none, false
}
