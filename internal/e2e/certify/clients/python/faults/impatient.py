"""Wrong: gives up after 2 s in all; every slow or repeated call becomes an open order that somebody has to look after."""
import client


class Call(client.Call):
    total_timeout = 2

    def out_of_time(self):
        return client.Outcome("pending", self.code, self.transaction_id)
