package ual_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/kproxy"
	"ciddk/kproxy/native/server"
	"ciddk/link/sim"
	"ciddk/rvt"
	"ciddk/ual"
)

// userHCA is an adapter with contexts of processes, whose driver replies to private data.
type userHCA struct {
	ci.HCA
	note func(format string, args ...any)
	fail atomic.Pointer[ci.Error] // of the next PD.CreateCQ
}

func (h *userHCA) Info() ci.HCAInfo {
	i := h.HCA.Info()
	i.Library = "echo"
	return i
}

func (h *userHCA) OpenCA(guid ci.GUID, fn func(ci.Event), arg any) (ci.CA, error) {
	ca, err := h.HCA.OpenCA(guid, fn, arg)
	if err != nil {
		return nil, err
	}
	return &userCA{CA: ca, h: h}, nil
}

type userCA struct {
	ci.CA
	h *userHCA
}

func (c *userCA) Unwrap() any { return c.CA }

func (c *userCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		a.Caps |= ci.CapUser
	}
	return a, err
}

func (c *userCA) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	c.h.reply("OpenUser", ub)
	if p.PID() != os.Getpid() || p.PointerBits() != 64 {
		return nil, ci.InvalidParameter
	}
	return &userContext{ca: c}, nil
}

// reply is what the driver does with private data: it sends it back, with a descriptor if it received one.
func (h *userHCA) reply(verb string, ub *ci.UserBuffer) {
	if ub == nil {
		h.note("driver %s without private data", verb)
		return
	}
	h.note("driver %s %d %q", verb, ub.Command, ub.In)
	ub.Status = 0
	ub.Out = append(ub.Out, "reply to "...)
	ub.Out = append(ub.Out, ub.In...)
	ub.OutFiles = nil
	for range ub.InFiles {
		ub.OutFiles = append(ub.OutFiles, os.Stdin)
	}
}

type userContext struct {
	ci.UnimplementedUserCA
	ca *userCA
}

func (u *userContext) Destroy() error { u.ca.h.note("driver closes the context"); return nil }

func (u *userContext) AllocatePD(typ ci.PDType, ub *ci.UserBuffer) (ci.PD, error) {
	u.ca.h.reply("AllocatePD", ub)
	pd, err := u.ca.CA.AllocatePD(typ)
	if err != nil {
		return nil, err
	}
	return &userPD{PD: pd, h: u.ca.h}, nil
}

type userPD struct {
	ci.PD
	h *userHCA
}

func (p *userPD) Unwrap() any { return p.PD }

func (p *userPD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	p.h.reply("CreateCQ", c.User)
	if err := p.h.fail.Swap(nil); err != nil {
		return nil, err
	}
	c.User = nil
	return p.PD.CreateCQ(c)
}

// echoLibrary is the user library of userHCA. It records what its hooks see.
func echoLibrary(note func(string, ...any)) *ci.UserLibrary {
	pre := func(verb, data string, ub *ci.UserBuffer) {
		note("pre %s", verb)
		ub.Command, ub.Status = 7, -1
		ub.In, ub.Out = []byte(data), make([]byte, 0, 64)
	}
	post := func(verb string, ub *ci.UserBuffer, err error) {
		note("post %s %v %d %q", verb, err, ub.Status, ub.Out)
	}
	return &ci.UserLibrary{Name: "echo", Version: ci.InterfaceVersion,
		OpenCA: ci.UserFallibleHook[ci.UserOpenCA]{
			Pre: func(a *ci.UserOpenCA, ub *ci.UserBuffer) error { pre("OpenCA", "open", ub); a.CA = "ca"; return nil },
			Post: func(a *ci.UserOpenCA, ub *ci.UserBuffer, err error) error {
				post("OpenCA", ub, err)
				return nil
			}},
		AllocatePD: ci.UserFallibleHook[ci.UserAllocatePD]{
			Pre: func(a *ci.UserAllocatePD, ub *ci.UserBuffer) error {
				pre("AllocatePD", fmt.Sprintf("pd of %v", a.CA), ub)
				a.PD = "pd"
				return nil
			},
			Post: func(_ *ci.UserAllocatePD, ub *ci.UserBuffer, err error) error {
				post("AllocatePD", ub, err)
				return nil
			}},
		DestroyCA: ci.UserFallibleHook[ci.UserDestroyCA]{
			Post: func(a *ci.UserDestroyCA, ub *ci.UserBuffer, err error) error {
				note("post DestroyCA %v %v %v", a.CA, ub == nil, err)
				return nil
			}},
	}
}

// newUserRig returns a daemon with a userHCA, a function that returns and clears the records, and a client with
// libraries.
func newUserRig(t *testing.T, libs func(note func(string, ...any)) []*ci.UserLibrary) (*userHCA,
	*reference.HCA, *ual.Client,
	func() []string) {
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	require.NoError(t, err)
	inner, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	records := make(chan string, 100)
	note := func(format string, args ...any) { records <- fmt.Sprintf(format, args...) }
	h := &userHCA{HCA: inner, note: note}
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	require.NoError(t, al.Register(h))
	core, err := kproxy.New(kproxy.Config{AL: al})
	require.NoError(t, err)
	srv := server.New(core, clock.Real())
	r := &rig{t: t, al: al, core: core, server: srv, hca: inner}
	c, err := ual.New(r.connect(), ual.Config{Libraries: libs(note)})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		srv.Close()
		require.NoError(t, core.Close())
		require.NoError(t, al.Close())
		require.NoError(t, inner.Close())
	})
	return h, inner, c, func() (list []string) {
		for {
			select {
			case s := <-records:
				list = append(list, s)
			default:
				return list
			}
		}
	}
}

// TestHooks follows private data through the ten steps: the hook before the verb, the driver, and the hook after it.
func TestHooks(t *testing.T) {
	var lib *ci.UserLibrary
	h, inner, c, records := newUserRig(t, func(note func(string, ...any)) []*ci.UserLibrary {
		lib = echoLibrary(note)
		return []*ci.UserLibrary{{Name: "other", Version: ci.InterfaceVersion}, lib}
	})
	ca := (&rig{t: t}).open(c, nil)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"pre OpenCA", `driver OpenUser 7 "open"`, `post OpenCA <nil> 0 "reply to open"`,
		"pre AllocatePD", `driver AllocatePD 7 "pd of ca"`, `post AllocatePD <nil> 0 "reply to pd of ca"`}, records())
	state, ok := ci.UserHandle[string](pd)
	assert.True(t, ok)
	assert.Equal(t, "pd", state)

	t.Run("a failing pre hook ends the verb", func(t *testing.T) {
		lib.CreateCQ = ci.UserFallibleHook[ci.UserCreateCQ]{
			Pre:  func(*ci.UserCreateCQ, *ci.UserBuffer) error { return ci.InsufficientMemory },
			Post: func(*ci.UserCreateCQ, *ci.UserBuffer, error) error { t.Error("post ran"); return nil }}
		_, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		require.ErrorIs(t, err, ci.InsufficientMemory)
		assert.Empty(t, records())
	})
	t.Run("the post hook sees the driver's error and its own status", func(t *testing.T) {
		h.fail.Store(&ci.Error{Verb: "PD.CreateCQ", Status: ci.InvalidCQSize})
		ran := false
		lib.CreateCQ = ci.UserFallibleHook[ci.UserCreateCQ]{
			Pre: func(a *ci.UserCreateCQ, ub *ci.UserBuffer) error {
				ub.Status, ub.Out = -5, make([]byte, 0, 64)
				return nil
			},
			Post: func(_ *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
				ran = true
				assert.ErrorIs(t, err, ci.InvalidCQSize)
				assert.EqualValues(t, -5, ub.Status)
				assert.Empty(t, ub.Out)
				return errors.New("not reported")
			}}
		_, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		require.ErrorIs(t, err, ci.InvalidCQSize)
		assert.True(t, ran)
	})
	t.Run("a failing post hook destroys the object", func(t *testing.T) {
		lib.CreateCQ = ci.UserFallibleHook[ci.UserCreateCQ]{
			Post: func(a *ci.UserCreateCQ, _ *ci.UserBuffer, err error) error {
				assert.NoError(t, err)
				assert.GreaterOrEqual(t, a.Granted, 4)
				assert.Equal(t, 1, inner.Live()["CQ"])
				return ci.InsufficientResources
			}}
		_, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		require.ErrorIs(t, err, ci.InsufficientResources)
		assert.Zero(t, inner.Live()["CQ"])
	})
	records()
	hooksOfData(t, lib, pd)
	records()
	require.NoError(t, pd.Destroy())
	require.NoError(t, ca.Destroy())
	assert.Equal(t, []string{"driver closes the context", "post DestroyCA ca true <nil>"}, records())
}

// hooksOfData tests arguments that the library changes, descriptors, and functions of the data path.
func hooksOfData(t *testing.T, lib *ci.UserLibrary, pd ci.PD) {
	polled := 0
	lib.CreateCQ = ci.UserFallibleHook[ci.UserCreateCQ]{
		Pre: func(a *ci.UserCreateCQ, ub *ci.UserBuffer) error {
			a.Create.Size = 33
			r, w, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, r.Close())
			t.Cleanup(func() { require.NoError(t, w.Close()) })
			ub.Out, ub.InFiles = make([]byte, 0, 64), []*os.File{w}
			return nil
		},
		Post: func(a *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
			assert.NoError(t, err)
			assert.GreaterOrEqual(t, a.Granted, 33)
			assert.Len(t, ub.OutFiles, 1)
			a.CQ = ci.UserCQ{Handle: "cq", Poll: func([]ci.WC) (int, error) { polled++; return 0, nil }}
			return nil
		}}
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
	require.NoError(t, err)
	_, err = cq.Poll(nil)
	require.NoError(t, err)
	assert.Equal(t, 1, polled)
	lib.QueryCQ.Pre = func(a *ci.UserQueryCQ,
		_ *ci.UserBuffer) error {
		a.Attr.Size = 1234
		return ci.VerbsProcessingDone
	}
	attr, err := cq.Query()
	require.NoError(t, err)
	assert.Equal(t, 1234, attr.Size)
	lib.DestroyCQ.Pre = func(*ci.UserDestroyCQ, *ci.UserBuffer) error { return ci.VerbsProcessingDone }
	require.ErrorIs(t, cq.Destroy(), ci.VerbsProcessingDone, "only some verbs may be finished by the library")
	lib.DestroyCQ.Pre = nil
	require.NoError(t, cq.Destroy())

	posts := 0
	lib.CreateAV.Pre = func(a *ci.UserCreateAV, _ *ci.UserBuffer) error { a.AV = "av"; return ci.VerbsProcessingDone }
	lib.CreateAV.Post = func(*ci.UserCreateAV, *ci.UserBuffer, error) error { posts++; return nil }
	lib.ModifyAV.Pre = func(*ci.UserModifyAV, *ci.UserBuffer) error { return ci.VerbsProcessingDone }
	lib.ModifyAV.Post = func(*ci.UserModifyAV, *ci.UserBuffer, error) { posts++ }
	lib.DestroyAV.Pre = func(*ci.UserDestroyAV, *ci.UserBuffer) error { return ci.VerbsProcessingDone }
	av, err := pd.CreateAV(ci.AVAttr{Port: 1})
	require.NoError(t, err)
	assert.Zero(t, posts)
	require.NoError(t, av.Modify(ci.AVAttr{Port: 1}))
	assert.Equal(t, 1, posts, "after ModifyAV only")
	require.NoError(t, av.Destroy())
}

// TestNoLibrary uses an adapter whose library the program does not have, or has in another version. Its driver receives
// empty private data.
func TestNoLibrary(t *testing.T) {
	_, _, c, records := newUserRig(t, func(note func(string, ...any)) []*ci.UserLibrary {
		lib := echoLibrary(note)
		lib.Version += 1 << 16
		return []*ci.UserLibrary{lib}
	})
	ca := (&rig{t: t}).open(c, nil)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	assert.Equal(t, []string{`driver OpenUser 0 ""`, `driver AllocatePD 0 ""`}, records())
	_, ok := ci.UserHandle[string](pd)
	assert.False(t, ok)
}
