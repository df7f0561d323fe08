"""Wrong: takes a new key for an order that an earlier run may have sent; if it was carried out, it is charged twice."""
import client


class Call(client.Call):
    needs_state_file = True

    def carry_out(self):
        noted = self.note()
        if noted:
            self.key += f"-{noted + 1}"  # "must be a new attempt"
        return super().carry_out()

    def note(self):
        """Notes the order in the state file; returns how often it was noted before."""
        line = self.order["id"].encode() + b"\n"
        with open(self.state_file, "a+b", buffering=0) as file:
            file.seek(0)
            noted = file.read().splitlines(keepends=True).count(line)
            file.write(line)
        return noted
