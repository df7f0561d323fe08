package console

import (
	"net/http"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const staffPath = "/console/staff"

func (c console) loginRoutes() []web.Route {
	const ofOperator = "/console/operators/{id}/logins"
	routes := []web.Route{
		{Method: http.MethodGet, Path: staffPath, Area: web.Console, Allow: everyone, Keys: "g s", Menu: look.Text("Staff"), Icon: "users", Handle: c.showStaff},
		guarded(admin.LoginCreate, staffPath, "", c.createStaff),
		{Method: http.MethodGet, Path: ofOperator, Area: web.Console, Allow: everyone, Handle: c.showLogins},
		guarded(admin.LoginCreate, ofOperator, "", c.createLogin),
	}
	// A login's page is below the list that it is on.
	for _, one := range []string{staffPath + "/{login}", ofOperator + "/{login}"} {
		routes = append(routes,
			web.Route{Method: http.MethodGet, Path: one, Area: web.Console, Allow: everyone, Handle: c.showLogin},
			guarded(admin.LoginSet, one+"/name", one, c.setName),
			guarded(admin.LoginSet, one+"/role", one, c.setRole),
			actionRoute(admin.LoginSet, one+"/access", one, c.setAccess),
			guarded(admin.LoginResetPassword, one+"/reset-password", one, c.resetPassword),
			guarded(admin.LoginResetTOTP, one+"/reset-second-factor", one, c.resetSecondFactor),
		)
	}
	return routes
}

// shownLogin is a login with its display texts.
type shownLogin struct{ login.Person }

func (l shownLogin) RoleName() string { return web.RoleName(l.Role) }
func (l shownLogin) Path() string     { return l.List() + "/" + number(l.ID) }

// List returns the page that lists the login.
func (l shownLogin) List() string {
	if l.Realm == login.Operator {
		return operatorPath(l.OperatorID) + "/logins"
	}
	return staffPath
}

func (l shownLogin) State() string {
	if l.Disabled {
		return "disabled"
	}
	return "active"
}

func shownLogins(people []login.Person) []shownLogin {
	list := make([]shownLogin, len(people))
	for i, p := range people {
		list[i] = shownLogin{p}
	}
	return list
}

// loginsPage is a list of logins with the form for a new one: an operator's, or
// staff's if Head is nil.
type loginsPage struct {
	Head   *operatorHead
	Form   *form
	Logins []shownLogin
	Action string
	// Second: another administrator has to approve a login that may approve.
	Second bool
	rights
}

func (c console) showStaff(v *web.Visit) error { return c.staffPage(v, newForm(v, "")) }

func (c console) staffPage(v *web.Visit, f *form) error {
	people, err := c.service(v).Logins(v.Context(), admin.LoginFilter{Realm: login.Staff})
	if err != nil {
		return err
	}
	data := loginsPage{Form: f, Logins: shownLogins(people), Action: staffPath, rights: rightsOf(v)}
	if data.Second, err = c.service(v).HasApprover(v.Context(), 0); err != nil {
		return err
	}
	return c.showList(v, data)
}

func (c console) showLogins(v *web.Visit) error { return c.loginsPage(v, newForm(v, "")) }

func (c console) loginsPage(v *web.Visit, f *form) error {
	head, err := c.head(v, "logins")
	if err != nil {
		return err
	}
	people, err := c.service(v).Logins(v.Context(), admin.LoginFilter{Realm: login.Operator, OperatorID: head.ID})
	if err != nil {
		return err
	}
	return c.showList(v, loginsPage{Head: &head, Form: f, Logins: shownLogins(people), Action: head.Path() + "/logins", rights: head.rights})
}

func (c console) showList(v *web.Visit, data loginsPage) error {
	if !data.Form.ok() {
		return again(v, "console/logins", data)
	}
	return v.Show("console/logins", data)
}

// passwordPage shows a generated password, once.
type passwordPage struct {
	Login    shownLogin
	Password string
	Created  bool
	Back     string
}

func (c console) createStaff(v *web.Visit) error {
	role := login.Role(v.Field("role"))
	if !slices.Contains(login.Staff.Roles(), role) {
		role = "" // which is not a staff role
	}
	return c.create(v, admin.NewLogin{Role: role}, staffPath, c.staffPage)
}

func (c console) createLogin(v *web.Visit) error {
	operator, err := c.operator(v)
	if err != nil {
		return err
	}
	role := login.Role(v.Field("role"))
	if !slices.Contains(login.Operator.Roles(), role) {
		role = ""
	}
	made := admin.NewLogin{Role: role, OperatorID: operator.ID}
	return c.create(v, made, operatorPath(operator.ID)+"/logins", c.loginsPage)
}

// create creates a login and responds with its password, which is not stored for another
// page.
func (c console) create(v *web.Visit, made admin.NewLogin, back string, show func(*web.Visit, *form) error) error {
	f := newForm(v, "create")
	made.Name, made.Username = f.text("name"), f.text("username")
	if made.Username != "" {
		if _, ok := login.FoldUsername(made.Username); !ok {
			f.wrong("username", v.T("Enter 3 to 64 of a-z, 0-9 and . _ - @"))
		}
	}
	if made.Role == "" {
		f.wrong("role", v.T("Choose one of these."))
	}
	service := c.service(v).WithVoucher(f.once())
	if !f.ok() {
		return show(v, f)
	}
	outcome, err := service.SubmitLogin(lasting(v), made)
	if err != nil {
		return c.undone(v, service, f, err, func() error { return show(v, f) })
	}
	if outcome.Waits() {
		return waits(v, outcome)
	}
	return v.Show("console/password", passwordPage{Login: shownLogin{outcome.Person}, Password: outcome.Password, Created: true, Back: back})
}

// waits redirects to the open proposal about a login.
func waits(v *web.Visit, outcome admin.ActionResult) error {
	if outcome.Already {
		return v.Redirect(approvalsPath, v.Info("The same proposal already needs a second approval. Nothing was added."))
	}
	return v.Redirect(approvalsPath, v.Info("Your proposal needs the approval of another administrator. Nothing changes until then."))
}

type loginPage struct {
	Login shownLogin
	Form  *form
	// Operator is the login's operator; empty for staff.
	Operator subscription.Operator
	// Own: it is the visitor's own login, which they must not lock out.
	Own   bool
	Roles []look.Choice
	// Second: giving the login access that may approve waits for another administrator;
	// Approves: the login may approve now.
	Second, Approves bool
	rights
}

// login returns the login in the path, which must be on the list in the path.
func (c console) login(v *web.Visit) (login.Person, error) {
	id, err := pathID(v, "login")
	if err != nil {
		return login.Person{}, err
	}
	var operatorID int64 // 0 for staff
	if v.R.PathValue("id") != "" {
		if operatorID, err = pathID(v, "id"); err != nil {
			return login.Person{}, err
		}
	}
	person, err := c.service(v).Login(v.Context(), id)
	if err == nil && person.OperatorID != operatorID {
		return login.Person{}, web.NotFound()
	}
	return person, orNotFound(err)
}

func (c console) showLogin(v *web.Visit) error { return c.loginPage(v, newForm(v, "")) }

func (c console) loginPage(v *web.Visit, f *form) error {
	person, err := c.login(v)
	if err != nil {
		return err
	}
	data := loginPage{Login: shownLogin{person}, Form: f, Own: person.ID == v.Session.Person.ID, rights: rightsOf(v)}
	if person.OperatorID != 0 {
		if data.Operator, err = c.service(v).Operator(v.Context(), person.OperatorID); err != nil {
			return err
		}
	}
	if person.Realm == login.Staff {
		data.Approves = admin.Approves(person.Role)
		if data.Second, err = c.service(v).HasApprover(v.Context(), person.ID); err != nil {
			return err
		}
	}
	for _, role := range person.Realm.Roles() {
		data.Roles = append(data.Roles, look.Choice{Value: string(role), Text: v.T(web.RoleName(role))})
	}
	if !f.ok() {
		return again(v, "console/login", data)
	}
	return v.Show("console/login", data)
}

// onLogin runs an action on the login in the path, and shows its page again after a
// refusal.
func (c console) onLogin(v *web.Visit, f *form, do func(login.Person) error) error {
	person, err := c.login(v)
	if err != nil {
		return err
	}
	if !f.ok() {
		return c.loginPage(v, f)
	}
	if err := do(person); err != nil {
		if err := f.refused(err); err != nil {
			return err
		}
		return c.loginPage(v, f)
	}
	return nil
}

func (c console) setName(v *web.Visit) error {
	f := newForm(v, "name")
	name := f.text("name")
	return c.onLogin(v, f, func(p login.Person) error {
		return c.changeLogin(v, p, admin.LoginChange{Name: &name}, v.Success("Changed."))
	})
}

func (c console) setRole(v *web.Visit) error {
	role := login.Role(v.Field("role"))
	return c.onLogin(v, newForm(v, "role"), func(p login.Person) error {
		if p.ID == v.Session.Person.ID {
			return admin.Refuse("you cannot change your own role")
		}
		outcome, err := c.service(v).SubmitRole(lasting(v), p.ID, role)
		if err != nil {
			return err
		}
		if outcome.Waits() {
			return waits(v, outcome)
		}
		return v.Redirect(shownLogin{p}.Path(), v.Success("Changed. It applies immediately, also where they are signed in."))
	})
}

func (c console) setAccess(v *web.Visit) error {
	disabled := v.Field("disabled") == "yes"
	return c.onLogin(v, newForm(v, "access"), func(p login.Person) error {
		notice := v.Success("%s can sign in again.", p.Username)
		if disabled {
			notice = v.Success("%s is disabled and signed out everywhere.", p.Username)
		}
		if disabled && p.ID == v.Session.Person.ID {
			return admin.Refuse("you cannot disable your own login")
		}
		return c.changeLogin(v, p, admin.LoginChange{Disabled: &disabled}, notice)
	})
}

func (c console) changeLogin(v *web.Visit, p login.Person, change admin.LoginChange, done *look.Notice) error {
	if _, err := c.service(v).ChangeLogin(lasting(v), p.ID, change); err != nil {
		return err
	}
	return v.Redirect(shownLogin{p}.Path(), done)
}

func (c console) resetPassword(v *web.Visit) error {
	f := newForm(v, "reset-password")
	service := c.service(v).WithVoucher(f.once())
	return c.onLogin(v, f, func(p login.Person) error {
		if p.ID == v.Session.Person.ID {
			return admin.Refuse("your own password is changed on your account's page")
		}
		outcome, err := service.SubmitPasswordReset(lasting(v), p.ID)
		if err != nil {
			return c.undone(v, service, f, err, func() error { return c.loginPage(v, f) })
		}
		if outcome.Waits() {
			return waits(v, outcome)
		}
		return v.Show("console/password", passwordPage{Login: shownLogin{outcome.Person}, Password: outcome.Password, Back: shownLogin{p}.Path()})
	})
}

func (c console) resetSecondFactor(v *web.Visit) error {
	return c.onLogin(v, newForm(v, "reset-second-factor"), func(p login.Person) error {
		if p.ID == v.Session.Person.ID {
			return admin.Refuse("your own second factor is replaced on your account's page")
		}
		outcome, err := c.service(v).SubmitTOTPReset(lasting(v), p.ID)
		if err != nil {
			return err
		}
		if outcome.Waits() {
			return waits(v, outcome)
		}
		return v.Redirect(shownLogin{p}.Path(), v.Success("The second factor of %s was removed, and they were signed out everywhere.", p.Username))
	})
}
