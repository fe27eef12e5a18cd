package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
)

// Argo CD itself cannot be imported: its module needs gitops-engine by a replace directive, which holds in the main
// module only. So this is its interpreter with its libraries: no string, no math, no io, and of os only the clock.
// Argo CD gives a script as long as luaTimeout.
const luaTimeout = time.Second

var healthStatuses = []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}

func argoCD(script string, u *unstructured.Unstructured) verdict {
	result, err := runLua(script, u.Object)
	if err != nil {
		return verdict{Error: err.Error()}
	}
	return result
}

func runLua(script string, object map[string]any) (verdict, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	if err := openLibraries(state); err != nil {
		return verdict{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), luaTimeout)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		return verdict{}, err
	}
	return toVerdict(state.Get(-1))
}

func openLibraries(state *lua.LState) error {
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.OsLibName: lua.OpenOs,
	} {
		call := lua.P{Fn: state.NewFunction(open), NRet: 0, Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return err
		}
	}
	clock := state.NewTable()
	for _, name := range []string{"time", "date"} {
		clock.RawSetString(name, state.GetField(state.GetGlobal(lua.OsLibName), name))
	}
	state.SetGlobal(lua.OsLibName, clock)
	return nil
}

func toVerdict(value lua.LValue) (verdict, error) {
	if value.Type() == lua.LTNil {
		return verdict{}, nil
	}
	if value.Type() != lua.LTTable {
		return verdict{}, fmt.Errorf("the script returned a %s, not a table", value.Type())
	}
	encoded, err := luajson.Encode(value)
	if err != nil {
		return verdict{}, err
	}
	var result verdict
	if err := json.Unmarshal(encoded, &result); err != nil {
		return verdict{}, err
	}
	if !slices.Contains(healthStatuses, result.Status) {
		return verdict{}, fmt.Errorf("%q is no health status", result.Status)
	}
	return result, nil
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch typed := value.(type) {
	case bool:
		return lua.LBool(typed)
	case float64:
		return lua.LNumber(typed)
	case int64:
		return lua.LNumber(typed)
	case string:
		return lua.LString(typed)
	case []any:
		list := state.CreateTable(len(typed), 0)
		for _, item := range typed {
			list.Append(toLua(state, item))
		}
		return list
	case map[string]any:
		table := state.CreateTable(0, len(typed))
		for key, item := range typed {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	}
	return lua.LNil
}
