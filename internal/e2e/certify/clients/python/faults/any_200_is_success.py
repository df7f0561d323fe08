"""Wrong: takes every 200 after a POST for a success; orders that only a proxy has seen count as carried out."""
import client


class Call(client.Call):
    def after_send(self, answer):
        if answer.status == 200:
            return client.Outcome("success", self.code, self.transaction_id)
        return super().after_send(answer)
