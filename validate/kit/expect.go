package kit

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
)

// aliases are statuses that count as the documented one, with a note. They are where SAS, headers and IBTA give one condition two
// names: exhaustion of host or of HCA memory; a clamped size by its own status or by the general one; an attribute out of range.
var aliases = map[ci.Status][]ci.Status{
	ci.InsufficientResources: {ci.InsufficientMemory},
	ci.InsufficientMemory:    {ci.InsufficientResources},
	ci.InvalidMaxWRs:         {ci.InvalidSetting},
	ci.InvalidMaxSGE:         {ci.InvalidSetting},
	ci.InvalidSetting:        {ci.InvalidMaxWRs, ci.InvalidMaxSGE},
	ci.InvalidParameter:      {ci.InvalidSetting},
	ci.InvalidSRQHandle:      {ci.InvalidQPHandle},
}

// Aliases gives the statuses that Want takes for s, s not among them.
func Aliases(s ci.Status) []ci.Status { return slices.Clone(aliases[s]) }

// Describe puts an error in words for a finding: the status, and the driver's own words.
func Describe(err error) string {
	if err == nil {
		return "success"
	}
	s := ci.StatusOf(err)
	if e, ok := errors.AsType[*ci.Error](err); ok {
		return fmt.Sprintf("%s (%v)", s.String(), e)
	}
	if s == ci.UnknownError {
		return fmt.Sprintf("an error that wraps no ci.Status: %v", err)
	}
	return s.String()
}

// OK expects that a verb worked.
func OK(t *validate.T, err error, where string) {
	if err != nil {
		t.Fail(validate.Failure{Where: where, Expected: "success", Got: Describe(err)})
	}
}

// Want expects that a verb failed with one of the statuses, or an alias of one.
func Want(t *validate.T, err error, where string, want ...ci.Status) {
	got := ci.StatusOf(err)
	if slices.Contains(want, got) {
		return
	}
	for _, w := range want {
		if slices.Contains(aliases[w], got) {
			t.Note("%s: %s for %s, an accepted alias", where, got.String(), w.String())
			return
		}
	}
	wrong(t, err, where, want)
}

// WantExactly is Want without aliases.
func WantExactly(t *validate.T, err error, where string, want ...ci.Status) {
	if !slices.Contains(want, ci.StatusOf(err)) {
		wrong(t, err, where, want)
	}
}

func wrong(t *validate.T, err error, where string, want []ci.Status) {
	t.Fail(validate.Failure{Where: where, Expected: oneOf(want), Got: Describe(err)})
}

func oneOf[S fmt.Stringer](want []S) string {
	s := ""
	for i, w := range want {
		if i > 0 {
			s += " or "
		}
		s += w.String()
	}
	return s
}

// WantRefused expects a create verb to fail with one of the statuses and to return no object. If it did return one, it is destroyed.
func WantRefused(t *validate.T, obj ci.Object, err error, where string, want ...ci.Status) {
	made := obj != nil && !(reflect.ValueOf(obj).Kind() == reflect.Pointer && reflect.ValueOf(obj).IsNil())
	if made && err == nil {
		t.Cleanup(func() { _ = obj.Destroy() })
	}
	Want(t, err, where, want...)
	if obj != nil {
		t.Fail(validate.Failure{Where: where, Expected: "no object beside the error", Got: fmt.Sprintf("%s and an object of type %T", Describe(err), obj)})
	}
}

// Claim expects that the answer of an optional verb fits the capability bits: Unsupported without all of them, anything else with.
func Claim(t *validate.T, bits ci.Caps, err error, where string) {
	claimed, unsupported := t.Claims().Has(bits), ci.StatusOf(err) == ci.Unsupported
	switch {
	case claimed && unsupported:
		t.Fail(validate.Failure{Where: where, Expected: "an answer other than Unsupported, since " + validate.CapNames(bits) + " is claimed", Got: Describe(err)})
	case !claimed && !unsupported:
		t.Fail(validate.Failure{Where: where, Expected: "Unsupported, since " + validate.CapNames(bits) + " is not claimed", Got: Describe(err)})
	}
}

// Equal expects a value.
func Equal[V comparable](t *validate.T, where string, got, want V) {
	if got != want {
		t.Fail(validate.Failure{Where: where, Expected: fmt.Sprintf("%v", want), Got: fmt.Sprintf("%v", got)})
	}
}

// AtLeast expects a number not below want.
func AtLeast[V ~int | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64](t *validate.T, where string, got, want V) {
	if got < want {
		t.Fail(validate.Failure{Where: where, Expected: fmt.Sprintf("at least %v", want), Got: fmt.Sprintf("%v", got)})
	}
}

// True expects a condition; expected says which in words, got what was seen.
func True(t *validate.T, ok bool, where, expected, got string, args ...any) {
	if !ok {
		t.Fail(validate.Failure{Where: where, Expected: expected, Got: fmt.Sprintf(got, args...)})
	}
}

// SameBytes expects content, and tells the first difference.
func SameBytes(t *validate.T, where string, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		t.Fail(validate.Failure{Where: where, Expected: fmt.Sprintf("%d bytes", len(want)), Got: fmt.Sprintf("%d bytes", len(got))})
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	n := 0
	for j := range got {
		if got[j] != want[j] {
			n++
		}
	}
	end := min(i+16, len(got))
	t.Fail(validate.Failure{Where: fmt.Sprintf("%s, byte %d of %d", where, i, len(got)), Expected: fmt.Sprintf("% x", want[i:end]),
		Got: fmt.Sprintf("% x (%d bytes differ)", got[i:end], n)})
}

// SameObject expects that two faces are one object (ci.Same).
func SameObject(t *validate.T, where string, got, want any) {
	if !ci.Same(got, want) {
		t.Fail(validate.Failure{Where: where, Expected: fmt.Sprintf("the object given at create (%T)", want), Got: fmt.Sprintf("%T, another object", got)})
	}
}

// handleStatuses are the answers of a destroyed object.
var handleStatuses = []ci.Status{ci.InvalidCAHandle, ci.InvalidAVHandle, ci.InvalidCQHandle, ci.InvalidQPHandle, ci.InvalidSRQHandle,
	ci.InvalidPDHandle, ci.InvalidMRHandle, ci.InvalidFMRHandle, ci.InvalidMWHandle, ci.InvalidMcastHandle, ci.InvalidHandle}

// Destroy expects that Destroy of the object works.
func Destroy(t *validate.T, obj ci.Object, what string) { OK(t, obj.Destroy(), what+".Destroy") }

// DestroyTwice expects that the first Destroy works and the second says that the object is no more.
func DestroyTwice(t *validate.T, obj ci.Object, what string, handle ci.Status) {
	Destroy(t, obj, what)
	Want(t, obj.Destroy(), what+".Destroy, the second time", handle)
}

// Own destroys the object when the case is over. The case may destroy it before: then the second Destroy answers with a handle status, which is
// right. Any other failure is a finding.
func Own[O ci.Object](t *validate.T, obj O, what string) O {
	t.Cleanup(func() {
		if err := obj.Destroy(); err != nil && !slices.Contains(handleStatuses, ci.StatusOf(err)) {
			t.Report(validate.Failure{Where: what + ".Destroy at the end of the case", Expected: "success", Got: Describe(err)})
		}
	})
	return obj
}

// created checks the result of a constructor's verb: a failure is marked Setup.
func created[O ci.Object](t *validate.T, obj O, err error, verb, what string) O {
	end := t.Setup()
	OK(t, err, verb)
	end()
	return Own(t, obj, what)
}

// setup runs a step of a constructor whose failure is marked Setup.
func setup(t *validate.T, err error, where string) {
	end := t.Setup()
	OK(t, err, where)
	end()
}
