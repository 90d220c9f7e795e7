package validate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// WaiverSchema names the format of an expectation file:
//
//	{
//	  "schema": "ddk-validate/expectations/v1",
//	  "waivers": {
//	    "rc.atomic.*": "firmware 2.1 has no atomics; ticket 4711",
//	    "cq.resize.shrink": {"reason": "fixed in 2.3", "expires": "2027-03-31"}
//	  }
//	}
//
// A key is a glob over case ids. The value is the reason why these cases are expected to fail. It must not be empty.
const WaiverSchema = "ddk-validate/expectations/v1"

// A Waiver is one expected failure.
type Waiver struct {
	Pattern string    `json:"pattern"`
	Reason  string    `json:"reason"`
	Expires time.Time `json:"expires,omitzero"` // the last day on which it applies, UTC
}

// expired reports whether the waiver's last day is over.
func (w Waiver) expired(now time.Time) bool {
	return !w.Expires.IsZero() && !now.Before(w.Expires.AddDate(0, 0, 1))
}

// ParseWaivers parses an expectation file. Unknown fields, duplicate keys and empty reasons are errors.
func ParseWaivers(b []byte) ([]Waiver, error) {
	var file struct {
		Schema  string          `json:"schema"`
		Waivers json.RawMessage `json:"waivers"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return nil, fmt.Errorf("expectations: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("expectations: more than one JSON value")
	}
	if file.Schema != WaiverSchema {
		return nil, fmt.Errorf("expectations: schema is %q, want %q", file.Schema, WaiverSchema)
	}
	ws, err := parseWaiverMap(file.Waivers)
	if err != nil {
		return nil, fmt.Errorf("expectations: %w", err)
	}
	return ws, nil
}

// parseWaiverMap parses the object token by token, since encoding/json would silently keep the last of two equal keys.
func parseWaiverMap(b []byte) ([]Waiver, error) {
	if len(b) == 0 {
		return nil, errors.New("no waivers (leave the file out instead)")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.New("waivers is not an object")
	}
	var out []Waiver
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := tok.(string) // keys of an object are strings
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, fmt.Errorf("duplicate waiver %q", key)
		}
		seen[key] = true
		w, err := parseWaiver(key, raw)
		if err != nil {
			return nil, fmt.Errorf("waiver %q: %w", key, err)
		}
		out = append(out, w)
	}
	return out, nil
}

func parseWaiver(key string, raw []byte) (Waiver, error) {
	w := Waiver{Pattern: key}
	if _, err := path.Match(key, ""); err != nil || key == "" {
		return w, errors.New("the key is not a valid glob")
	}
	if err := json.Unmarshal(raw, &w.Reason); err != nil {
		var long struct{ Reason, Expires string }
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&long); err != nil {
			return w, fmt.Errorf(`want a reason, or {"reason": …, "expires": "2006-01-02"}: %w`, err)
		}
		w.Reason = long.Reason
		if long.Expires != "" {
			d, err := time.Parse(time.DateOnly, long.Expires)
			if err != nil {
				return w, fmt.Errorf("expires %q is not a date such as 2027-03-31", long.Expires)
			}
			w.Expires = d
		}
	}
	if strings.TrimSpace(w.Reason) == "" {
		return w, errors.New("the reason is empty")
	}
	return w, nil
}

// waivable reports whether a waiver applies to the result. A waiver for a failure also excuses a flaky or inconclusive
// case.
func (r *Result) waivable() bool {
	return r.Status == Fail || r.Status == Flaky || r.Status == Inconclusive
}

// applyWaivers changes the status of expected failures to waived. It returns remarks about waivers that were not
// needed, that match no case, or that have expired. A waiver for a case that left the catalog names its successor.
func (c *Catalog) applyWaivers(results []Result, ws []Waiver, now time.Time) (remarks []string) {
	for _, w := range ws {
		matched, needed := 0, 0
		var passed []string
		for i := range results {
			r := &results[i]
			if !glob(w.Pattern, r.Case) {
				continue
			}
			matched++
			switch {
			case r.Status == Waived:
				needed++
			case r.waivable() && !w.expired(now):
				r.Status, r.Reason = Waived, w.Reason
				needed++
			case r.waivable():
				remarks = append(remarks, fmt.Sprintf("the waiver %q for %s expired on %s: %s",
					w.Pattern, r.Case, w.Expires.Format(time.DateOnly), w.Reason))
				needed++
			case r.Status == Pass:
				passed = append(passed, r.Case)
			}
		}
		switch {
		case matched == 0 && c.describeMoved(w.Pattern) != "":
			remarks = append(remarks, fmt.Sprintf("the waiver %q can be removed: %s", w.Pattern,
				c.describeMoved(w.Pattern)))
		case matched == 0:
			remarks = append(remarks, fmt.Sprintf("the waiver %q matches no case of this run", w.Pattern))
		case len(passed) > 0:
			remarks = append(remarks, fmt.Sprintf("the waiver %q can be narrowed or removed; these cases passed: %s",
				w.Pattern, strings.Join(passed, ", ")))
		}
	}
	return remarks
}
