package verbs

import "ciddk/ci"

// fail returns a ci.Error.
func fail(verb string, s ci.Status, detail string) error {
	return &ci.Error{Verb: verb, Status: s, Detail: detail}
}
