package services

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/internal/kproxy/schema"
	"ciddk/mad"
)

// TestFieldsTravel checks that each field of the types of the services has its place in the request to the daemon, so
// that none is ignored. Functions stay in the process.
func TestFieldsTravel(t *testing.T) {
	for _, x := range []struct {
		api, request any
		rejected     string // a field that must have its zero value
	}{
		{api: mads.Message{}, request: schema.SendMAD{}},
		{api: mads.AgentConfig{}, request: schema.RegisterAgent{}, rejected: "Manager"},
		{api: cm.ListenConfig{}, request: schema.CMListen{}},
		{api: cm.ConnectConfig{}, request: schema.CMConnect{}},
		{api: cm.AcceptConfig{}, request: schema.CMReply{}},
		{api: cm.AlternateConfig{}, request: schema.CMLoadAlternate{}},
		{api: cm.LookupConfig{}, request: schema.CMLookup{}},
		{api: cm.QP{}, request: schema.CMQP{}},
		{api: cm.Path{}, request: schema.CMPath{}},
	} {
		api, request := reflect.TypeOf(x.api), reflect.TypeOf(x.request)
		for f := range fieldsOf(api) {
			if f.Type.Kind() == reflect.Func || f.Name == x.rejected {
				continue
			}
			name := f.Name
			if f.Type == reflect.TypeFor[mad.ServiceID]() && name == "Service" {
				name = "ServiceID" // beside Services, the handle
			}
			_, ok := request.FieldByName(name)
			assert.True(t, ok, "%v.%s has no field in %v", api, f.Name, request)
		}
	}
}

func fieldsOf(typ reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for f := range typ.Fields() {
			if f.IsExported() && !yield(f) {
				return
			}
		}
	}
}
