// Fills the form's hidden field "answer" with what the authenticator says, and sends the form.
"use strict";
const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const ids = (list) => (list || []).map((one) => ({ ...one, id: bytes(one.id) }));

async function ask(button) {
  const o = JSON.parse(button.dataset.options);
  o.challenge = bytes(o.challenge);
  o.allowCredentials = ids(o.allowCredentials);
  o.excludeCredentials = ids(o.excludeCredentials);
  if (o.user) o.user.id = bytes(o.user.id);
  const made = await navigator.credentials[button.dataset.kind]({ publicKey: o });
  const response = { clientDataJSON: text(made.response.clientDataJSON) };
  for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (made.response[name]) response[name] = text(made.response[name]);
  }
  return JSON.stringify({ id: made.id, rawId: text(made.rawId), type: made.type, response });
}

for (const button of document.querySelectorAll("button.passkey")) {
  button.hidden = !window.PublicKeyCredential;
  button.addEventListener("click", async (event) => {
    const field = button.form.elements.answer;
    if (field.value || !button.form.reportValidity()) return;
    event.preventDefault();
    try {
      field.value = await ask(button);
      button.form.requestSubmit(button);
    } catch (error) {
      button.insertAdjacentText("afterend", "The passkey was not used: " + error.message);
    }
  });
}
