package tidy

import "go/ast"

// checkDocs asks for a comment on every exported identifier of a package that
// others can import; a method counts if its receiver is exported.
func (t *tree) checkDocs(f file) {
	if f.ast.Name.Name == "main" {
		return
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
				t.report(d.Pos(), "%s is exported and has no comment", d.Name.Name)
			}
		case *ast.GenDecl:
			t.checkSpecs(d)
		}
	}
}

// checkSpecs accepts one comment above a group, or one beside each identifier.
func (t *tree) checkSpecs(d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
				t.report(s.Pos(), "%s is exported and has no comment", s.Name.Name)
			}
		case *ast.ValueSpec:
			if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil && !precededByDoc(d, s) {
				t.report(s.Pos(), "%s is exported and has no comment", s.Names[0].Name)
			}
		}
	}
}

// precededByDoc reports whether the identifier shares the comment of the ones
// directly above it, as "MaxLevels and MaxBytes bound a name" does for two lines.
func precededByDoc(d *ast.GenDecl, s *ast.ValueSpec) bool {
	doc := false
	for _, other := range d.Specs {
		v := other.(*ast.ValueSpec)
		doc = doc || v.Doc != nil
		if v == s {
			return doc
		}
	}
	return false
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	x := d.Recv.List[0].Type
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	if generic, ok := x.(*ast.IndexExpr); ok {
		x = generic.X
	}
	name, ok := x.(*ast.Ident)
	return !ok || name.IsExported()
}
