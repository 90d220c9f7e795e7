package suite

import (
	_ "embed" // for the tables
	"errors"

	"ciddk/validate"
	"ciddk/validate/req"
)

//go:embed moved.txt
var movedTable string

//go:embed kitrules.txt
var kitRules string

// moved returns the cases that left the catalog, and the rules of the kit's own code, which have no other cases. A test
// checks that the successors of the cases exist.
func moved() validate.Suite {
	list, err := validate.ParseMoved(movedTable)
	rules, errRules := req.AccessLayer.ParseTable(kitRules)
	if err = errors.Join(err, errRules); err != nil {
		panic("suite: " + err.Error())
	}
	return validate.Suite{Name: "moved", Moved: list, Requirements: rules}
}
